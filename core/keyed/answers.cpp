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

Keyed::Stop Keyed::stop_of(const Anchor& anchor, const Extent& window) const {
    if (ranked_ && anchor.is_row && window.kind == Extent::rows) return {{anchor.time, anchor.tie}, true, false};
    int64_t stop = 0;
    bool all = !frame_.stop_time(anchor.time, window, stop);
    return {{stop, kFirstTie}, false, all};
}

// A window that counts reaches back to a gap, and to what has expired only if there is none.
Keyed::Counted Keyed::counted(const Anchor& anchor, const Extent& window, size_t to) {
    auto most = static_cast<size_t>(window.size);
    size_t from = window.kind == Extent::rows && to > most ? to - most : 0;
    bool before = window.kind == Extent::unbounded && has_before(anchor.slot);
    if (!frame_.idle) return {from, before};
    if (!to) return {0, before && !apart(before_of(anchor.slot).last(), anchor.time, frame_.idle)};
    RowTree tree = tree_of(anchor.slot);
    RowPlace last = RowCursor::at_rank(tree, to - 1).place(), start;
    if (apart(last.time, anchor.time, frame_.idle)) return {to, false};
    if (!last_break(anchor.slot, last, start)) return {from, before};
    return {std::max(from, tree.rank(tree.search(start))), false};
}

// The rows of one window.
Keyed::RowSpan Keyed::span_of(const Anchor& anchor, size_t w) {
    const Extent& window = frame_.windows[w];
    RowTree tree = tree_of(anchor.slot);
    size_t to = 0, from = 0;
    bool before = false;
    if (tree.size()) {
        Stop stop = stop_of(anchor, window);
        to = stop.all ? tree.size() : tree.rank(tree.search(stop.place)) + stop.with;
    }
    if (window.counts()) {
        Counted found = counted(anchor, window, to);
        from = found.from, before = found.before;
    } else if (tree.size()) {
        from = tree.rank(tree.search({frame_.first_time(anchor.time, window), kFirstTie}));
    }
    if (from >= to) return {from, to, nullptr, 0, before};
    RowCursor cursor = RowCursor::at_rank(tree, from);
    return {from, to, cursor.leaf(), cursor.position(), before};
}

void Keyed::start_record(int64_t* record, uint32_t slot, bool before) const {
    Plan::clear(record);
    if (before) std::memcpy(record, before_of(slot).record(), plan_->words() * sizeof(int64_t));
}

// Results that depend on times see a window that counts from its first row on.
void Keyed::put_timed(int64_t* record, const Anchor& anchor, size_t w, uint32_t place, RecordOutput& out) {
    const Extent& window = frame_.windows[w];
    int64_t start = anchor.time;
    if (window.counts()) {
        RowSpan span = span_of(anchor, w);
        if (span.before)
            start = before_of(anchor.slot).first();
        else if (span.from < span.to)
            start = nodes_.place(span.leaf, span.at).time;
    } else {
        start = frame_.edge_before(anchor.time, window);
    }
    plan_->store(record, {start, Frame::edge_after(anchor.time, window)}, out, place);
    if (record[kRows] < frame_.min_rows) out.clear_row(*plan_, place);
}

void Keyed::fold_window(const Anchor& anchor, size_t w, int64_t* record) {
    const Extent& window = frame_.windows[w];
    RowTotal total(record);
    Range<RowPlace> range;
    Stop stop = stop_of(anchor, window);
    bool some = tree_of(anchor.slot).size();
    if (window.counts()) {
        RowSpan span = span_of(anchor, w);
        start_record(record, anchor.slot, span.before);
        some = span.from < span.to;
        if (some) range.start = nodes_.place(span.leaf, span.at);
    } else {
        range.start = RowPlace{frame_.first_time(anchor.time, window), kFirstTie};
    }
    if (!some) return;
    if (!stop.all) range.stop = stop.place;
    range.stop_inside = stop.with;
    summaries_of(anchor.slot).fold(range, total);
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

// The rows in each anchor's window, by rank. The key has some.
void Keyed::find_spans(uint32_t slot, const Anchor* anchors, const uint32_t* order, size_t count, size_t w) {
    const Extent& window = frame_.windows[w];
    spans_.resize(count);
    RowTree tree = tree_of(slot);
    const Anchor& oldest = anchors[order[0]];
    RowPlace start = {window.counts() ? INT64_MIN : frame_.first_time(oldest.time, window), kFirstTie};
    RowCursor from(tree, start), to(tree, stop_of(oldest, window).place);
    for (size_t i = 0; i < count; ++i) {
        const Anchor& anchor = anchors[order[i]];
        RowSpan& span = spans_[i];
        Stop stop = stop_of(anchor, window);
        if (!stop.all) to.seek(stop.place);
        span.to = stop.all ? tree.size() : to.rank() + stop.with;
        span.before = false;
        if (window.counts()) {
            Counted found = counted(anchor, window, span.to);
            span.before = found.before;
            from.seek_rank(found.from);
        } else {
            from.seek({frame_.first_time(anchor.time, window), kFirstTie});
        }
        span.from = from.rank();
        span.leaf = from.leaf();
        span.at = from.position();
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
    size_t anchors = last - first, each = (cost_of(oldest.to - oldest.from) + cost_of(newest.to - newest.from)) / 2;
    size_t rows = (newest.from - oldest.from) + (newest.to - oldest.to);
    return anchors * each > 2 * (rows + each) + anchors;
}

void Keyed::answer_pass(uint32_t slot, const Anchor* anchors, const uint32_t* order, const Run& run, size_t window,
                        RecordOutput& out) {
    const RowSpan &oldest = spans_[run.first], &newest = spans_[run.last - 1];
    RowTree tree = tree_of(slot);
    struct Emit {
        Keyed& keyed;
        const Anchor* anchors;
        const uint32_t* order;
        size_t base, window;
        RecordOutput& out;
        int64_t* room(size_t k) { return keyed.room_for(base + k, out); }
        void put(size_t k, int64_t* record) { keyed.put(record, anchors[order[k]], window, order[k], out); }
    } emit{*this, anchors, order, run.base, window, out};
    // What all windows of the run have in common is folded once; then only rows before and after it are gone along.
    bool common = newest.from < oldest.to;
    RowCursor first = RowCursor::at_rank(tree, oldest.from);
    RowCursor next = common ? RowCursor::at_rank(tree, oldest.to) : first;
    RecordStates<TreeRows, Emit> states(*plan_, shape_, algebra_, TreeRows(nodes_, first, next), emit);
    SlidingPass<RecordStates<TreeRows, Emit>> pass(states);
    if (common) {
        RowTotal total = algebra_.total();
        Range<RowPlace> range;
        range.start = nodes_.place(newest.leaf, newest.at);
        if (!next.at_end()) range.stop = next.place();
        range.stop_inside = false;
        summaries_of(slot).fold(range, total);
        algebra_.combines += total.combines;
        states.make_suffixes(oldest.from, newest.from, total.words());
        pass.begin(newest.from, oldest.to);
    }
    for (size_t k = run.first; k < run.last; ++k) pass.answer(k, spans_[k].from, spans_[k].to);
}

// Windows that begin where the one before began: one record runs along, to which rows are added.
void Keyed::answer_running(uint32_t slot, const Anchor* anchors, const uint32_t* order, const Run& run, size_t window,
                           RecordOutput& out) {
    RowTree tree = tree_of(slot);
    RowTotal total = algebra_.total();
    RowCursor cursor = RowCursor::at_rank(tree, spans_[run.first].from);
    TreeRows rows(nodes_, cursor, cursor);
    size_t fed = 0;
    for (size_t k = run.first; k < run.last; ++k) {
        const RowSpan& span = spans_[k];
        if (k == run.first || span.from != spans_[k - 1].from || span.before != spans_[k - 1].before) {
            start_record(total.words(), slot, span.before);
            fed = span.from;
        }
        if (fed + 2 * nodes_.capacity() < span.to) {
            Range<RowPlace> range;
            range.start = RowCursor::at_rank(tree, fed).place();
            range.stop = RowCursor::at_rank(tree, span.to - 1).place();
            summaries_of(slot).fold(range, total);
        } else if (fed < span.to) {
            rows.feed(fed, span.to, [&](const int64_t* row, size_t count) { algebra_.add_rows(total, row, count); });
        }
        fed = std::max(fed, span.to);
        int64_t* record = room_for(run.base + k, out);
        std::memcpy(record, total.words(), plan_->words() * sizeof(int64_t));
        put(record, anchors[order[k]], window, order[k], out);
    }
    algebra_.combines += total.combines;
}

// A key of few rows: each window is folded by itself, from where the last one began.
void Keyed::answer_leaf(const tree::WordLeaf* leaf, const Anchor* anchors, const uint32_t* order, const Run& run,
                        size_t w, RecordOutput& out) {
    const Extent& window = frame_.windows[w];
    auto time_at = [&](uint32_t i) { return nodes_.row(leaf, i)[RowShape::kTime]; };
    bool before = window.kind == Extent::unbounded && has_before(anchors[order[run.first]].slot);
    uint32_t from = leaf->begin, to, most = leaf->count();
    if (window.kind == Extent::rows) most = static_cast<uint32_t>(std::min<int64_t>(window.size, most));
    for (size_t k = run.first; k < run.last; ++k) {
        const Anchor& anchor = anchors[order[k]];
        int64_t first = frame_.first_time(anchor.time, window);
        Stop stop = stop_of(anchor, window);
        auto is_after = [&](uint32_t i) {
            if (stop.with) return nodes_.less(stop.place, nodes_.place(leaf, i));
            return !stop.all && time_at(i) >= stop.place.time;
        };
        int64_t* record = room_for(run.base + k, out);
        to = leaf->end;
        while (from < leaf->end && time_at(from) < first) ++from;
        while (to > from && is_after(to - 1)) --to;
        uint32_t start = std::max(from, to - std::min(to, most));
        start_record(record, anchor.slot, before);
        if (start < to) algebra_.fold(record, nodes_.row(leaf, start), to - start);
        algebra_.combines += to - start;
        put(record, anchor, w, order[k], out);
    }
}

// Anchors of one key, in time order. Each run of them chooses for itself.
void Keyed::answer_key(const Anchor* anchors, const uint32_t* order, size_t base, size_t count,
                       std::vector<RecordOutput>& outs) {
    uint32_t slot = anchors[order[0]].slot;
    const tree::SmallSpines& rows = windows_[slot].rows;
    bool few = count == 1 || rows.size <= kFewRows;
    bool one_leaf = few && rows.size && rows.height() == 0;
    for (size_t w = 0; w < frame_.windows.size(); ++w) {
        RecordOutput& out = outs[w];
        const Extent& window = frame_.windows[w];
        if (one_leaf && !(frame_.idle && window.counts())) {
            answer_leaf(static_cast<tree::WordLeaf*>(rows.root()), anchors, order, {0, count, base}, w, out);
            continue;
        }
        if (!few) find_spans(slot, anchors, order, count, w);
        if (!few && window.kind == Extent::unbounded) {
            answer_running(slot, anchors, order, {0, count, base}, w, out);
            continue;
        }
        for (size_t first = 0; first < count;) {
            size_t last = few ? count : end_of_run(first, count);
            if (!few && pays(first, last)) {
                answer_pass(slot, anchors, order, {first, last, base}, w, out);
                first = last;
                continue;
            }
            for (; first < last; ++first) {
                const Anchor& anchor = anchors[order[first]];
                int64_t* record = room_for(base + first, out);
                if (few || !fold_span(spans_[first], record)) fold_window(anchor, w, record);
                put(record, anchor, w, order[first], out);
            }
        }
    }
    progress_->fetch_add(count, std::memory_order_relaxed);
}

void Keyed::answer(const std::vector<Anchor>& anchors, std::vector<RecordOutput>& outs) {
    *progress_ = 0;
    prepare(outs);
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
    size_t windows = frame_.windows.size(), count = anchors.size();
    spans.from.resize(windows * count);
    spans.to.resize(windows * count);
    std::vector<size_t> from, to;
    for (size_t first = 0; first < count;) {
        uint32_t slot = anchors[spans.order[first]].slot;
        size_t last = first + 1;
        while (last < count && anchors[spans.order[last]].slot == slot) ++last;
        auto at = [&](size_t w) { return static_cast<ptrdiff_t>(w * count + first); };
        if (windows_[slot].rows.size) {
            from.assign(last - first, SIZE_MAX);
            to.assign(last - first, 0);
            for (size_t w = 0; w < windows; ++w) {
                find_spans(slot, anchors.data(), spans.order.data() + first, last - first, w);
                for (size_t i = 0; i < last - first; ++i) {
                    from[i] = std::min(from[i], spans_[i].from);
                    to[i] = std::max(to[i], spans_[i].to);
                    spans.from[w * count + first + i] = static_cast<int64_t>(spans_[i].from);
                    spans.to[w * count + first + i] = static_cast<int64_t>(spans_[i].to);
                }
            }
            std::vector<size_t> shifts = gather_spans(slot, from, to, spans);
            for (size_t w = 0; w < windows; ++w)
                for (size_t i = 0; i < last - first; ++i) {
                    spans.from[w * count + first + i] -= static_cast<int64_t>(shifts[i]);
                    spans.to[w * count + first + i] -= static_cast<int64_t>(shifts[i]);
                }
        } else {
            for (size_t w = 0; w < windows; ++w) {  // nothing, but where the rows before it end: windows never go back
                auto nothing = static_cast<int64_t>(spans.seqs.size());
                std::fill_n(spans.from.begin() + at(w), last - first, nothing);
                std::fill_n(spans.to.begin() + at(w), last - first, nothing);
            }
        }
        first = last;
    }
    return spans;
}

// Adds the rows that any window of an anchor has, each once. For each anchor: its rows' ranks less their positions.
std::vector<size_t> Keyed::gather_spans(uint32_t slot, const std::vector<size_t>& from, const std::vector<size_t>& to,
                                        Spans& spans) {
    RowCursor cursor = RowCursor::at_rank(tree_of(slot), from[0]);
    std::vector<size_t> shifts(from.size());
    size_t taken = from[0];
    for (size_t i = 0; i < from.size(); ++i) {
        if (from[i] > taken) {
            cursor.seek_rank(from[i]);
            taken = from[i];
        }
        for (; taken < to[i]; ++taken, cursor.next()) {
            const int64_t* row = row_at(cursor);
            spans.seqs.push_back(RowShape::seq_of(row));
            spans.times.push_back(row[RowShape::kTime]);
        }
        shifts[i] = taken - spans.seqs.size();
    }
    return shifts;
}

}  // namespace sash
