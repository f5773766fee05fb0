// Results for anchors: range folds of a key's tree, or one sliding pass along its rows.
#include <optional>

#include "keyed/keyed.hpp"
#include "keyed/record_states.hpp"

namespace sash {

namespace {

constexpr size_t kFewRows = 24;  // of which each window is folded by itself

// The rows of a tree, by rank; two cursors go along them.
class TreeRows {
   public:
    TreeRows(const RowNodes& nodes, const RowCursor& first, const RowCursor& next)
        : nodes_(nodes), first_(first), next_(next) {}

    template <class Visit>
    void feed(size_t from, size_t to, Visit&& visit) {
        next_.skip(from - next_.rank());
        walk(next_, to, visit);
    }
    void collect(size_t from, size_t to, std::vector<Block>& blocks) {
        first_.skip(from - first_.rank());
        RowCursor cursor = first_;
        walk(cursor, to, [&](const int64_t* row, size_t count) { blocks.push_back({row, count}); });
    }

   private:
    template <class Visit>
    void walk(RowCursor& cursor, size_t to, Visit&& visit) {
        while (cursor.rank() < to) {
            size_t here = std::min<size_t>(cursor.leaf()->end - cursor.position(), to - cursor.rank());
            visit(nodes_.row(cursor.leaf(), cursor.position()), here);
            cursor.skip(here);
        }
    }
    const RowNodes& nodes_;
    RowCursor first_, next_;
};

}  // namespace

// --- windows -------------------------------------------------------------------------------------------

int64_t Keyed::edge_of(int64_t time, size_t window) const {
    int64_t edge;
    return __builtin_sub_overflow(time, frame_.sizes[window], &edge) ? INT64_MIN : edge;
}
RowPlace Keyed::first_in(int64_t time, size_t window) const {
    int64_t edge = edge_of(time, window);
    return {frame_.closed_left || edge == INT64_MIN ? edge : edge + 1, kFirstTie};
}
bool Keyed::stop_of(int64_t time, RowPlace& stop) const {
    bool last = !frame_.closed_left && time == INT64_MAX;
    stop = {frame_.closed_left || last ? time : time + 1, kFirstTie};
    return !last;
}

void Keyed::fold_window(uint32_t slot, int64_t time, size_t window, int64_t* record) {
    RowTotal total(record);
    RowTree tree = tree_of(slot);
    if (!tree.size()) return;
    Range<RowPlace> range;
    range.start = first_in(time, window);
    RowPlace stop;
    if (stop_of(time, stop)) range.stop = stop;
    range.stop_inside = false;
    summaries_of(slot).fold(range, total);
    algebra_.combines += total.combines;
}

// Rows that are all in one leaf; false where they are not.
bool Keyed::fold_span(const RowSpan& span, int64_t* record) {
    size_t rows = span.to - span.from;
    if (rows > span.leaf->end - span.at) return false;
    Plan::clear(record);
    if (rows) algebra_.fold(record, nodes_.row(span.leaf, span.at), rows);
    algebra_.combines += rows;
    return true;
}

// --- runs of anchors -----------------------------------------------------------------------------------

// The rows in each anchor's window, by rank.
void Keyed::find_spans(uint32_t slot, const Anchor* anchors, const uint32_t* order, size_t count, size_t window) {
    spans_.resize(count);
    RowTree tree = tree_of(slot);
    RowPlace stop;
    stop_of(anchors[order[0]].time, stop);
    RowCursor from(tree, first_in(anchors[order[0]].time, window)), to(tree, stop);
    for (size_t i = 0; i < count; ++i) {
        int64_t time = anchors[order[i]].time;
        from.seek(first_in(time, window));
        spans_[i].from = from.rank();
        spans_[i].leaf = from.leaf();
        spans_[i].at = from.position();
        bool stops = stop_of(time, stop);
        if (stops) to.seek(stop);
        spans_[i].to = stops ? to.rank() : tree.size();
    }
}

// About how many combines a range fold of so many rows takes.
size_t Keyed::cost_of(size_t rows) const {
    size_t leaf = nodes_.capacity();
    if (rows <= 2 * leaf) return rows;
    size_t cost = leaf;
    for (size_t blocks = rows / leaf; blocks > 0; blocks /= nodes_.fanout()) cost += nodes_.fanout();
    return cost;
}

// Anchors belong together as long as going over what lies between them costs less than to start again.
size_t Keyed::end_of_run(size_t first, size_t count) const {
    size_t gap = 2 * cost_of(spans_[first].to - spans_[first].from) + 16;
    size_t most = kMostSuffixes / (plan_->words() * sizeof(int64_t)) + 1;
    size_t last = first + 1;
    for (; last < count; ++last) {
        size_t left = spans_[last].from - spans_[last - 1].from, entered = spans_[last].to - spans_[last - 1].to;
        if (left + entered > gap || spans_[last].from - spans_[first].from > most) break;
    }
    return last;
}

// A sliding pass costs O(1) combines for each row that enters or leaves; range folds cost some for each anchor.
bool Keyed::pays(size_t first, size_t last) const {
    const RowSpan &oldest = spans_[first], &newest = spans_[last - 1];
    size_t anchors = last - first, each = cost_of(oldest.to - oldest.from);
    size_t rows = (newest.from - oldest.from) + (newest.to - oldest.to);
    return anchors * each > 2 * (rows + each) + anchors;
}

void Keyed::answer_pass(uint32_t slot, const Anchor* anchors, const uint32_t* order, const Run& run, size_t window,
                        RecordOutput& out) {
    const RowSpan &oldest = spans_[run.first], &newest = spans_[run.last - 1];
    int64_t first_time = anchors[order[run.first]].time, last_time = anchors[order[run.last - 1]].time;
    RowTree tree = tree_of(slot);
    struct Emit {
        Keyed& keyed;
        const Anchor* anchors;
        const uint32_t* order;
        size_t base, window;
        RecordOutput& out;
        int64_t* room(size_t k) { return keyed.room_for(base + k, out); }
        void put(size_t k, int64_t* record) { keyed.put(record, anchors[order[k]].time, window, order[k], out); }
    } emit{*this, anchors, order, run.base, window, out};
    // What all windows of the run have in common is folded once; then only rows before and after it are gone along.
    bool common = newest.from < oldest.to;
    RowPlace stop;
    stop_of(first_time, stop);
    RowCursor first(tree, first_in(first_time, window));
    RecordStates<TreeRows, Emit> states(*plan_, shape_, algebra_,
                                        TreeRows(nodes_, first, common ? RowCursor(tree, stop) : first), emit);
    SlidingPass<RecordStates<TreeRows, Emit>> pass(states);
    if (common) {
        RowTotal total = algebra_.total();
        Range<RowPlace> range;
        range.start = first_in(last_time, window);
        range.stop = stop;
        range.stop_inside = false;
        summaries_of(slot).fold(range, total);
        algebra_.combines += total.combines;
        states.make_suffixes(oldest.from, newest.from, total.words());
        pass.begin(newest.from, oldest.to);
    }
    for (size_t k = run.first; k < run.last; ++k) pass.answer(k, spans_[k].from, spans_[k].to);
}

// A key of few rows: each window is folded by itself, from where the last one began.
void Keyed::answer_leaf(const tree::WordLeaf* leaf, const Anchor* anchors, const uint32_t* order, const Run& run,
                        size_t window, RecordOutput& out) {
    auto time_at = [&](uint32_t i) { return nodes_.row(leaf, i)[RowShape::kTime]; };
    uint32_t from = leaf->begin, to;
    for (size_t k = run.first; k < run.last; ++k) {
        int64_t time = anchors[order[k]].time, first = first_in(time, window).time;
        int64_t* record = room_for(run.base + k, out);
        to = leaf->end;
        while (from < leaf->end && time_at(from) < first) ++from;
        while (to > from && (frame_.closed_left ? time_at(to - 1) >= time : time_at(to - 1) > time)) --to;
        Plan::clear(record);
        if (from < to) algebra_.fold(record, nodes_.row(leaf, from), to - from);
        algebra_.combines += to - from;
        put(record, time, window, order[k], out);
    }
}

// Anchors of one key, in time order. Each run of them chooses for itself.
void Keyed::answer_key(const Anchor* anchors, const uint32_t* order, size_t base, size_t count,
                       std::vector<RecordOutput>& outs) {
    uint32_t slot = anchors[order[0]].slot;
    const tree::SmallSpines& rows = windows_[slot].rows;
    bool few = count == 1 || rows.size <= kFewRows || anchors[order[count - 1]].time == INT64_MAX;
    bool one_leaf = few && rows.size && rows.height() == 0;
    for (size_t w = 0; w < frame_.sizes.size(); ++w) {
        RecordOutput& out = outs[w];
        if (one_leaf) {
            answer_leaf(static_cast<tree::WordLeaf*>(rows.root()), anchors, order, {0, count, base}, w, out);
            continue;
        }
        if (!few) find_spans(slot, anchors, order, count, w);
        for (size_t first = 0; first < count;) {
            size_t last = few ? count : end_of_run(first, count);
            if (!few && pays(first, last)) {
                answer_pass(slot, anchors, order, {first, last, base}, w, out);
                first = last;
                continue;
            }
            for (; first < last; ++first) {
                int64_t time = anchors[order[first]].time, *record = room_for(base + first, out);
                if (few || !fold_span(spans_[first], record)) fold_window(slot, time, w, record);
                put(record, time, w, order[first], out);
            }
        }
    }
    progress_->fetch_add(count, std::memory_order_relaxed);
}

void Keyed::answer(const std::vector<Anchor>& anchors, std::vector<RecordOutput>& outs) {
    if (frame_.gap) return answer_sessions(anchors, outs[0]);
    *progress_ = 0;
    std::vector<uint32_t> order = by_key_and_time(anchors);
    bool as_it_is = std::is_sorted(order.begin(), order.end());
    for (RecordOutput& out : outs) out.places = as_it_is ? nullptr : order.data();
    for (size_t first = 0; first < order.size();) {
        prefetch(first, order.size(), [&](size_t i) { return anchors[order[i]].slot; }, all_rows);
        size_t last = first + 1;
        while (last < order.size() && anchors[order[last]].slot == anchors[order[first]].slot) ++last;
        answer_key(anchors.data(), order.data() + first, first, last - first, outs);
        first = last;
    }
    for (RecordOutput& out : outs) {
        out.flush();
        out.places = nullptr;
    }
}

// Rows between windows that no window has are not among the spans.
Spans Keyed::spans(const std::vector<Anchor>& anchors) {
    Spans spans{by_key_and_time(anchors), {}, {}, {}, {}};
    size_t windows = frame_.sizes.size(), count = anchors.size();
    spans.from.resize(windows * count);
    spans.to.resize(windows * count);
    size_t widest = 0;
    for (size_t w = 1; w < windows; ++w)
        if (frame_.sizes[w] > frame_.sizes[widest]) widest = w;
    for (size_t first = 0; first < count;) {
        uint32_t slot = anchors[spans.order[first]].slot;
        size_t last = first + 1;
        while (last < count && anchors[spans.order[last]].slot == slot) ++last;
        if (windows_[slot].rows.size) {
            const uint32_t* order = spans.order.data() + first;
            std::vector<size_t> shifts = gather_spans(slot, anchors.data(), order, last - first, widest, spans);
            for (size_t w = 0; w < windows; ++w) {
                find_spans(slot, anchors.data(), order, last - first, w);
                for (size_t i = 0; i < last - first; ++i) {
                    spans.from[w * count + first + i] = static_cast<int64_t>(spans_[i].from - shifts[i]);
                    spans.to[w * count + first + i] = static_cast<int64_t>(spans_[i].to - shifts[i]);
                }
            }
        } else {
            for (size_t w = 0; w < windows; ++w) {  // nothing, but where the rows before it end: windows never go back
                auto nothing = static_cast<int64_t>(spans.seqs.size());
                std::fill_n(spans.from.begin() + static_cast<ptrdiff_t>(w * count + first), last - first, nothing);
                std::fill_n(spans.to.begin() + static_cast<ptrdiff_t>(w * count + first), last - first, nothing);
            }
        }
        first = last;
    }
    return spans;
}

// Adds the rows of the widest windows, each once. For each anchor: its rows' ranks less their positions.
std::vector<size_t> Keyed::gather_spans(uint32_t slot, const Anchor* anchors, const uint32_t* order, size_t count,
                                        size_t widest, Spans& spans) {
    find_spans(slot, anchors, order, count, widest);
    RowCursor cursor(tree_of(slot), first_in(anchors[order[0]].time, widest));
    std::vector<size_t> shifts(count);
    size_t taken = spans_[0].from;
    for (size_t i = 0; i < count; ++i) {
        if (spans_[i].from > taken) {
            cursor.seek(first_in(anchors[order[i]].time, widest));
            taken = spans_[i].from;
        }
        for (; taken < spans_[i].to; ++taken, cursor.next()) {
            const int64_t* row = row_at(cursor);
            spans.seqs.push_back(RowShape::seq_of(row));
            spans.times.push_back(row[RowShape::kTime]);
        }
        shifts[i] = taken - spans.seqs.size();
    }
    return shifts;
}

}  // namespace sash
