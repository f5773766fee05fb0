// Questions: results for instants and ranges of keys that are asked about from outside. What is held stays as it is, but
// for summaries, which are repaired as they are read.
#include "keyed/keyed.hpp"

namespace sash {

// A key that is not there has no rows, as a free slot has none.
uint32_t Keyed::nobody() {
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(windows_.size()));
        windows_.emplace_back();
    }
    return free_.back();
}

Anchors Keyed::asked(const KeyColumns* keys, const int64_t* times, size_t count) {
    uint32_t none = nobody();
    std::vector<Anchor> anchors;
    anchors.reserve(count);
    std::string key;
    for (size_t i = 0; i < count; ++i) {
        key.clear();
        if (keys) keys->append(key, i);
        uint32_t slot = find_slot(key);
        anchors.push_back({slot == kNoSlot ? none : slot, false, times[i], 0, 0});
    }
    return current(std::move(anchors));
}

void Keyed::answer_range(const std::vector<Anchor>& anchors, int64_t from, int64_t to, const Span& span,
                         RecordOutput& out) {
    Range<RowPlace> range;
    range.start = RowPlace{from, kFirstTie};
    if (to < INT64_MAX) range.stop = RowPlace{to + 1, kFirstTie};
    range.stop_inside = false;
    for (size_t i = 0; i < anchors.size(); ++i) {
        int64_t* record = room_for(i, out);
        RowTotal total(record);
        if (from <= to && tree_of(anchors[i].slot).size()) summaries_of(anchors[i].slot).fold(range, total);
        algebra_.combines += total.combines;
        if (plan_->timed()) plan_->store(record, span, out, i);
    }
    out.flush();
}

Spans Keyed::range_spans(const std::vector<Anchor>& anchors, int64_t from, int64_t to) const {
    Spans spans;
    for (size_t i = 0; i < anchors.size(); ++i) {
        spans.order.push_back(static_cast<uint32_t>(i));
        spans.from.push_back(static_cast<int64_t>(spans.seqs.size()));
        if (windows_[anchors[i].slot].rows.size) {
            RowCursor cursor(tree_of(anchors[i].slot), {from, kFirstTie});
            for (; !cursor.at_end() && cursor.place().time <= to; cursor.next()) {
                const int64_t* row = row_at(cursor);
                spans.seqs.push_back(RowShape::seq_of(row));
                spans.times.push_back(row[RowShape::kTime]);
            }
        }
        spans.to.push_back(static_cast<int64_t>(spans.seqs.size()));
    }
    return spans;
}

}  // namespace sash
