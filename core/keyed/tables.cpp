// Results for complete tables: one sliding pass along the rows of each key, none of which is kept.
#include <algorithm>

#include "keyed/keyed.hpp"
#include "keyed/record_states.hpp"

namespace sash {

namespace {

// The rows of a table, which lie side by side in order.
class TableRows {
   public:
    TableRows(const int64_t* words, uint32_t stride) : words_(words), stride_(stride) {}
    template <class Visit>
    void feed(size_t from, size_t to, Visit&& visit) {
        visit(words_ + from * stride_, to - from);
    }
    void collect(size_t from, size_t to, std::vector<Block>& blocks) {
        blocks.push_back({words_ + from * stride_, to - from});
    }

   private:
    const int64_t* words_;
    size_t stride_;
};

}  // namespace

// Common ops go along their columns one by one; others go along rows as records.
bool Keyed::is_common(const Column& inputs) const {
    for (size_t i = 0; i < inputs.input_count; ++i)
        if (inputs.inputs[i].nulls) return false;
    for (const Op& op : plan_->ops())
        if (op.words ? op.step == Step::other || op.table->timed : op.reads.size() > 0) return false;
    return true;
}

namespace {

size_t end_of_key(const KeyBatch& batch, size_t first) {
    size_t last = first + 1;
    while (last < batch.order.size() && batch.slots[batch.order[last]] == batch.slots[batch.order[first]]) ++last;
    return last;
}

// The rows of a key by time, those of one time as they came. Were they so before?
bool sort_by_time(uint32_t* rows, size_t count, const int64_t* times) {
    auto earlier = [&](uint32_t a, uint32_t b) { return times[a] < times[b]; };
    bool sorted = std::is_sorted(rows, rows + count, earlier);
    if (!sorted) std::stable_sort(rows, rows + count, earlier);
    return sorted;
}

}  // namespace

// Suffixes of records are as many as a key has rows.
bool Keyed::fits(const KeyBatch& batch) const {
    size_t most = 4 * kMostSuffixes / (plan_->words() * sizeof(int64_t));
    for (size_t first = 0, last; first < batch.order.size(); first = last)
        if ((last = end_of_key(batch, first)) - first > most) return false;
    return true;
}

bool Keyed::roll(KeyBatch& batch, const int64_t* times, const Column& inputs, const Anchors* questions,
                 std::vector<RecordOutput>& outs) {
    bool common = is_common(inputs);
    if (!common && !fits(batch)) return false;
    *progress_ = 0;
    prepare(outs);
    if (questions)
        roll_questions(batch, times, common, inputs, questions->items, outs);
    else
        roll_rows(batch, times, common, inputs, outs);
    for (RecordOutput& out : outs) {
        out.flush();
        out.places = nullptr;
    }
    return true;
}

void Keyed::roll_rows(KeyBatch& batch, const int64_t* times, bool common, const Column& inputs,
                      std::vector<RecordOutput>& outs) {
    for (size_t first = 0, last; first < batch.order.size(); first = last) {
        last = end_of_key(batch, first);
        uint32_t* order = batch.order.data() + first;
        bool sorted = sort_by_time(order, last - first, times);
        bool whole = sorted && last - first == batch.order.size();  // one key: rows lie as they are
        Instants rows{times, whole ? nullptr : order, last - first};
        roll_key(rows, rows, true, common, inputs, outs);
    }
}

// Only keys that are asked about are sorted.
void Keyed::roll_questions(KeyBatch& batch, const int64_t* times, bool common, const Column& inputs,
                           const std::vector<Anchor>& questions, std::vector<RecordOutput>& outs) {
    struct Rows {
        size_t first = 0, last = 0;
    };
    std::vector<Rows> held(windows_.size());
    for (size_t first = 0, last; first < batch.order.size(); first = last) {
        last = end_of_key(batch, first);
        held[batch.slots[batch.order[first]]] = {first, last};
    }
    std::vector<int64_t> instants(questions.size());
    for (size_t i = 0; i < questions.size(); ++i) instants[i] = questions[i].time;
    std::vector<uint32_t> order = by_key_and_time(questions);
    for (size_t first = 0, last; first < order.size(); first = last) {
        uint32_t slot = questions[order[first]].slot;
        for (last = first + 1; last < order.size() && questions[order[last]].slot == slot;) ++last;
        uint32_t* rows = batch.order.data() + held[slot].first;
        size_t count = held[slot].last - held[slot].first;
        sort_by_time(rows, count, times);
        roll_key({times, rows, count}, {instants.data(), order.data() + first, last - first}, false, common, inputs,
                 outs);
    }
}

void Keyed::roll_key(const Instants& rows, const Instants& anchors, bool are_rows, bool common, const Column& inputs,
                     std::vector<RecordOutput>& outs) {
    std::vector<uint32_t> from(anchors.count), to(anchors.count);
    if (!common) fill_table(rows, inputs);
    for (size_t w = 0; w < frame_.windows.size(); ++w) {
        find_frames(rows, anchors, are_rows, frame_.windows[w], from, to);
        Frames frames{from.data(), to.data(), anchors.count};
        if (common)
            roll_columns(rows, anchors, frames, inputs, outs[w]);
        else
            roll_records(rows, anchors, frames, w, outs[w]);
        progress_->fetch_add(anchors.count, std::memory_order_relaxed);
    }
}

// The rows in each anchor's window. Those that lie on one side of all windows are never looked at again.
void Keyed::find_frames(const Instants& rows, const Instants& anchors, bool are_rows, const Extent& window,
                        std::vector<uint32_t>& from, std::vector<uint32_t>& to) {
    auto count = static_cast<uint32_t>(rows.count);
    uint32_t edge = 0;
    for (size_t i = 0; i < anchors.count; to[i++] = edge) {
        int64_t stop;
        if (are_rows && ranked_ && window.kind == Extent::rows)
            edge = static_cast<uint32_t>(i) + 1;
        else if (!frame_.stop_time(anchors[i], window, stop))
            edge = count;
        else
            while (edge < count && rows[edge] < stop) ++edge;
    }
    if (window.counts()) return find_counted(rows, anchors, window, from, to);
    edge = 0;
    for (size_t i = 0; i < anchors.count; from[i++] = edge) {
        int64_t first = frame_.first_time(anchors[i], window);
        while (edge < count && rows[edge] < first) ++edge;
    }
}

// The same for windows that count rows, back to the last gap before them.
void Keyed::find_counted(const Instants& rows, const Instants& anchors, const Extent& window,
                         std::vector<uint32_t>& from, const std::vector<uint32_t>& to) const {
    int64_t most = window.kind == Extent::rows ? window.size : INT64_MAX;
    uint32_t done = 1, start = 0;
    for (size_t i = 0; i < anchors.count; ++i) {
        from[i] = to[i] > most ? to[i] - static_cast<uint32_t>(most) : 0;
        if (!frame_.idle || !to[i]) continue;
        for (; done < to[i]; ++done)
            if (apart(rows[done - 1], rows[done], frame_.idle)) start = done;
        from[i] = apart(rows[to[i] - 1], anchors[i], frame_.idle) ? to[i] : std::max(from[i], start);
    }
}

void Keyed::roll_columns(const Instants& rows, const Instants& anchors, const Frames& frames, const Column& inputs,
                         RecordOutput& out) const {
    size_t at = 0;
    for (size_t p = 0; p < plan_->parts(); ++p) {
        const Op& op = plan_->ops()[p];
        int64_t* columns[] = {out.words + at * out.rows, out.words + (at + 1) * out.rows};
        uint8_t* there = out.there + p * out.rows;
        if (op.words) {
            slide_common(op, inputs.inputs[op.inputs[0]].words, rows.places, frames, anchors.places, columns, there);
        } else {
            for (size_t i = 0; i < frames.count; ++i) {
                size_t place = anchors.place(i);
                columns[0][place] = frames.to[i] > frames.from[i] ? frames.to[i] - frames.from[i] : 0;
                there[place] = 1;
            }
        }
        at += op.outputs;
    }
    for (size_t i = 0; frame_.min_rows && i < frames.count; ++i)
        if (frames.to[i] - frames.from[i] < frame_.min_rows) out.clear_row(*plan_, anchors.place(i));
}

// The rows of a key in order, as a tree would hold them.
void Keyed::fill_table(const Instants& rows, const Column& inputs) {
    table_rows_.resize(rows.count * shape_.stride);
    batch_seq_ = 0;
    for (size_t i = 0; i < rows.count; ++i)
        fill(table_rows_.data() + i * shape_.stride, {rows[i], rows.place(i)}, inputs, rows.place(i));
}

void Keyed::roll_records(const Instants& rows, const Instants& anchors, const Frames& frames, size_t window,
                         RecordOutput& out) {
    struct Emit {
        Keyed& keyed;
        const Instants &rows, &anchors;
        const Frames& frames;
        const Extent& window;
        RecordOutput& out;
        int64_t* room(size_t k) { return keyed.room_for(k, out); }
        void put(size_t k, int64_t* record) {
            if (!keyed.plan_->timed()) return;
            int64_t time = anchors[k], start = time;
            if (!window.counts())
                start = keyed.frame_.edge_before(time, window);
            else if (frames.from[k] < frames.to[k])
                start = rows[frames.from[k]];
            keyed.plan_->store(record, {start, Frame::edge_after(time, window)}, out, anchors.place(k));
            if (record[kRows] < out.min_rows) out.clear_row(*keyed.plan_, anchors.place(k));
        }
    } emit{*this, rows, anchors, frames, frame_.windows[window], out};
    out.flush();  // of the key before, whose order was another
    out.places = anchors.places;
    TableRows table(table_rows_.data(), shape_.stride);
    RecordStates<TableRows, Emit> states(*plan_, shape_, algebra_, table, emit);
    SlidingPass<RecordStates<TableRows, Emit>> pass(states);
    for (size_t k = 0; k < frames.count; ++k) pass.answer(k, frames.from[k], frames.to[k]);
    out.flush();
}

}  // namespace sash
