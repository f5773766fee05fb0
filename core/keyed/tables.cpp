// Results for complete tables: one sliding pass along the rows of each key, none of which is kept.
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

bool Keyed::roll(KeyBatch& batch, const int64_t* times, const Column& inputs, std::vector<RecordOutput>& outs) {
    std::vector<uint32_t>&order = batch.order, &slots = batch.slots;
    bool common = is_common(inputs);
    auto end_of_key = [&](size_t first) {
        size_t last = first + 1;
        while (last < order.size() && slots[order[last]] == slots[order[first]]) ++last;
        return last;
    };
    size_t most = 4 * kMostSuffixes / (plan_->words() * sizeof(int64_t));
    for (size_t first = 0, last; !common && first < order.size(); first = last)
        if ((last = end_of_key(first)) - first > most) return false;
    *progress_ = 0;
    auto earlier = [&](uint32_t a, uint32_t b) { return times[a] < times[b]; };
    for (size_t first = 0, last; first < order.size(); first = last) {
        last = end_of_key(first);
        auto begin = order.begin() + static_cast<ptrdiff_t>(first), end = order.begin() + static_cast<ptrdiff_t>(last);
        bool sorted = std::is_sorted(begin, end, earlier);
        if (!sorted) std::stable_sort(begin, end, earlier);
        bool whole = sorted && last - first == order.size();  // one key: rows lie as they are
        roll_key(times, whole ? nullptr : order.data() + first, last - first, common, inputs, outs);
    }
    for (RecordOutput& out : outs) {
        out.flush();
        out.places = nullptr;
    }
    return true;
}

void Keyed::roll_key(const int64_t* times, const uint32_t* order, size_t count, bool common, const Column& inputs,
                     std::vector<RecordOutput>& outs) {
    auto time = [&](size_t i) { return times[order ? order[i] : i]; };
    bool left = frame_.closed_left;
    std::vector<uint32_t> from(count), to(count);
    for (size_t i = 0, edge = 0; i < count; to[i++] = static_cast<uint32_t>(edge))
        while (edge < count && (left ? time(edge) < time(i) : time(edge) <= time(i))) ++edge;
    if (!common) fill_table(times, order, count, inputs);
    for (size_t w = 0; w < frame_.sizes.size(); ++w) {
        for (size_t i = 0, edge = 0; i < count; from[i++] = static_cast<uint32_t>(edge)) {
            int64_t start;
            if (__builtin_sub_overflow(time(i), frame_.sizes[w], &start)) continue;  // nothing is older
            while (edge < count && (left ? time(edge) < start : time(edge) <= start)) ++edge;
        }
        Frames frames{from.data(), to.data(), count};
        if (common)
            roll_columns(order, frames, inputs, outs[w]);
        else
            roll_records(times, order, frames, w, outs[w]);
        progress_->fetch_add(count, std::memory_order_relaxed);
    }
}

void Keyed::roll_columns(const uint32_t* order, const Frames& frames, const Column& inputs, RecordOutput& out) const {
    size_t at = 0;
    for (size_t p = 0; p < plan_->parts(); ++p) {
        const Op& op = plan_->ops()[p];
        int64_t* columns[] = {out.words + at * out.rows, out.words + (at + 1) * out.rows};
        uint8_t* there = out.there + p * out.rows;
        if (op.words) {
            slide_common(op, inputs.inputs[op.inputs[0]].words, order, frames, columns, there);
        } else {
            for (size_t i = 0; i < frames.count; ++i) {
                size_t place = order ? order[i] : i;
                columns[0][place] = frames.to[i] > frames.from[i] ? frames.to[i] - frames.from[i] : 0;
                there[place] = 1;
            }
        }
        at += op.outputs;
    }
}

// The rows of a key in order, as a tree would hold them.
void Keyed::fill_table(const int64_t* times, const uint32_t* order, size_t count, const Column& inputs) {
    table_rows_.resize(count * shape_.stride);
    batch_seq_ = 0;
    for (size_t i = 0; i < count; ++i) {
        uint32_t row = order ? order[i] : static_cast<uint32_t>(i);
        fill(table_rows_.data() + i * shape_.stride, {times[row], row}, inputs, row);
    }
}

void Keyed::roll_records(const int64_t* times, const uint32_t* order, const Frames& frames, size_t window,
                         RecordOutput& out) {
    struct Emit {
        Keyed& keyed;
        const int64_t* times;
        const uint32_t* order;
        size_t window;
        RecordOutput& out;
        int64_t* room(size_t k) { return keyed.room_for(k, out); }
        void put(size_t k, int64_t* record) {
            uint32_t place = order ? order[k] : static_cast<uint32_t>(k);
            keyed.put(record, times[place], window, place, out);
        }
    } emit{*this, times, order, window, out};
    out.flush();  // of the key before, whose order was another
    out.places = order;
    TableRows rows(table_rows_.data(), shape_.stride);
    RecordStates<TableRows, Emit> states(*plan_, shape_, algebra_, rows, emit);
    SlidingPass<RecordStates<TableRows, Emit>> pass(states);
    for (size_t k = 0; k < frames.count; ++k) pass.answer(k, frames.from[k], frames.to[k]);
    out.flush();
}

}  // namespace sash
