// Sessions of complete tables: one pass along the sorted rows of each key, and no tree.
#include <algorithm>

#include "keyed/keyed.hpp"

namespace sash {

// The sessions of a batch, which is sorted by time within each key; `marks` says where each ends in its order.
Anchors Keyed::sessions_in(KeyBatch& batch, const int64_t* times) const {
    std::vector<Anchor> sessions;
    std::vector<int64_t> ends;
    std::vector<uint32_t>& order = batch.order;
    auto earlier = [&](uint32_t a, uint32_t b) { return times[a] < times[b]; };
    for (size_t first = 0, last; first < order.size(); first = last) {
        uint32_t slot = batch.slots[order[first]];
        for (last = first + 1; last < order.size() && batch.slots[order[last]] == slot;) ++last;
        auto begin = order.begin() + static_cast<ptrdiff_t>(first), end = order.begin() + static_cast<ptrdiff_t>(last);
        if (!std::is_sorted(begin, end, earlier)) std::stable_sort(begin, end, earlier);
        for (size_t row = first; row < last; ++row) {
            int64_t time = times[order[row]];
            if (row == first || distance(times[order[row - 1]], time) > static_cast<uint64_t>(frame_.gap)) {
                sessions.push_back(session_at(slot, time, time));
                ends.push_back(0);
            }
            sessions.back().seq = time;
            ends.back() = static_cast<int64_t>(row) + 1;
        }
    }
    return {std::move(sessions), std::move(ends), generation_, nullptr};
}

void Keyed::answer_table(const KeyBatch& batch, const Anchors& sessions, const int64_t* times, const Column& inputs,
                         RecordOutput& out) {
    *progress_ = 0;
    batch_seq_ = 0;
    size_t row = 0;
    for (size_t i = 0; i < sessions.items.size(); ++i) {
        const Anchor& session = sessions.items[i];
        auto end = static_cast<size_t>(sessions.marks[i]), count = end - row;
        table_rows_.resize(std::max(table_rows_.size(), std::min(count, kRowsAtOnce) * shape_.stride));
        int64_t* record = room_for(i, out);
        Plan::clear(record);
        while (row < end) {
            size_t here = std::min(end - row, kRowsAtOnce);
            for (size_t k = 0; k < here; ++k) {
                uint32_t place = batch.order[row + k];
                fill(table_rows_.data() + k * shape_.stride, {times[place], place}, inputs, place);
            }
            algebra_.fold(record, table_rows_.data(), here);
            row += here;
        }
        algebra_.combines += count;
        if (plan_->timed()) plan_->store(record, {session.time, later(session.seq, frame_.gap)}, out, i);
        if (i % 1024 == 0) progress_->store(row, std::memory_order_relaxed);
    }
    out.flush();
}

}  // namespace sash
