// One event, or one key: what a batch of one row does, without a batch.
#include <algorithm>

#include "keyed/keyed.hpp"

namespace sash {

uint8_t Keyed::apply_one(uint32_t slot, const OneRow& row, const Column& inputs) {
    const uint32_t first = 0;
    const uint8_t deletes = row.deletes, late = row.late;
    uint8_t status = inserted;
    batch_seq_ = row.seq;
    batch_status_ = &status;
    batch_identities_ = frame_.identified ? &row.identity : nullptr;
    apply_key(slot, &first, 1, &row.time, row.id, row.may_delete ? &deletes : nullptr, &late, inputs, &status);
    return status;
}

void Keyed::take_back(uint32_t slot, const OneRow& row) {
    RowTree tree = tree_of(slot);
    RowTree::Path path;
    if (tree.size()) path = tree.search({placed(row.time), row.id ? *row.id : row.seq});
    if (path.found && RowShape::seq_of(nodes_.row(path.leaf, path.position)) == row.seq) {
        if (frame_.idle) changes_.push_back({row.time, row.id ? *row.id : row.seq});
        tree.evict_at(path);
        --rows_;
        mend_breaks(slot);
    }
    unsure_.erase(std::remove(unsure_.begin(), unsure_.end(), slot), unsure_.end());
    free_if_empty(slot);
}

void Keyed::answer_one(const Anchor& anchor, std::vector<RecordOutput>& outs) {
    const uint32_t first = 0;
    prepare(outs);
    if (anchor.slot != kNoSlot) {
        answer_key(&anchor, &first, 0, 1, outs);
    } else {
        Anchor nowhere = anchor;
        nowhere.slot = nobody();
        answer_key(&nowhere, &first, 0, 1, outs);
    }
    for (RecordOutput& out : outs) out.flush();
}

}  // namespace sash
