// Rows: how a batch comes in, and what leaves again.
#include <tuple>

#include "keyed/keyed.hpp"

namespace sash {

// --- rows ----------------------------------------------------------------------------------------------

void Keyed::apply(const KeyBatch& batch, const int64_t* times, const int64_t* ids, const uint8_t* deletes,
                  const uint8_t* late, const int64_t* identities, const Column& inputs, uint8_t* status) {
    const std::vector<uint32_t>&order = batch.order, &slots = batch.slots;
    batch_seq_ = batch.seq;
    batch_status_ = status;
    batch_identities_ = identities;
    for (size_t first = 0; first < order.size();) {
        prefetch(first, order.size(), [&](size_t i) { return slots[order[i]]; }, last_row);
        uint32_t slot = slots[order[first]];
        size_t last = first + 1;
        while (last < order.size() && slots[order[last]] == slot) ++last;
        apply_key(slot, order.data() + first, last - first, times, ids, deletes, late, inputs, status);
        first = last;
    }
}

void Keyed::apply_key(uint32_t slot, const uint32_t* rows, size_t count, const int64_t* times, const int64_t* ids,
                      const uint8_t* deletes, const uint8_t* late, const Column& inputs, uint8_t* status) {
    bool named = ids != nullptr;
    for (size_t i = 0; i < count; ++i) {
        uint32_t row = rows[i];
        if (late && late[row]) {
            status[row] = too_late;
        } else if (frame_.merged) {
            insert_in_pane(slot, times[row], inputs, row);
            status[row] = inserted;
        } else if (!deletes || !deletes[row]) {
            RowPlace place{placed(times[row]), named ? ids[row] : batch_seq_ + row};
            status[row] = insert(slot, place, inputs, row, named, !deletes || !named);
        } else if (named) {
            status[row] = remove(slot, {placed(times[row]), ids[row]}, inputs, row, true);
        } else {
            deletes_.push_back(row);
        }
    }
    if (!late_.empty()) insert_late(slot, inputs, status, named);
    for (uint32_t row : deletes_) status[row] = remove(slot, {placed(times[row]), 0}, inputs, row, false);
    deletes_.clear();
    if (!changes_.empty()) mend_breaks(slot);
}

void Keyed::fill(int64_t* words, RowPlace place, const Column& inputs, uint32_t row) const {
    uint64_t nulls = read_inputs(inputs, row, words + shape_.inputs_at);
    if (plan_->timed()) words[shape_.inputs_at + plan_->time_at()] = place.time;
    if (shape_.identity_at) words[shape_.identity_at] = batch_identities_ ? batch_identities_[row] : 0;
    shape_.set_header(words, place, batch_seq_ + row, nulls);
}

// What follows from a row that has come in, which may be the oldest of its key.
void Keyed::entered(uint32_t slot, RowPlace place, bool may_be_oldest) {
    int64_t time = place.time;
    newest_ = holds_any() ? std::max(newest_, time) : time;
    ++rows_;
    if (frame_.remembers) touches_.push_back({slot, time, frame_.seen_until(time), place.tie});
    if (frame_.idle) changes_.push_back(place);
    if (counts_)
        settling_.lower(slot, time);
    else if (may_be_oldest)
        expiring_.lower(slot, time);
    int64_t due = later(time, frame_.gap);
    if (!showing_.started() || showing_.has(slot, due)) return;
    if (!frame_.on_grid() || frame_.next_boundary(time, due)) showing_.lower(slot, due);
}

// A row behind all others of its key is appended. Another waits for the rest of its batch, where `may_wait`.
uint8_t Keyed::insert(uint32_t slot, RowPlace place, const Column& inputs, uint32_t row, bool ids, bool may_wait) {
    RowTree tree = tree_of(slot);
    if (ids && awaits(slot, place)) return repeated;
    tree.start_if_empty();
    if (!tree.size() || nodes_.less(tree.newest(), place)) {
        tree.append(place, [&](auto* leaf, uint32_t i) { fill(nodes_.row(leaf, i), place, inputs, row); });
        entered(slot, place, tree.size() == 1);
        return inserted;
    }
    if (may_wait) {
        late_.push_back({place, row});
        return inserted;
    }
    RowTree::Path path = tree.search(place);
    if (path.found) return repeated;
    insert_one(tree, path, {place, row}, inputs);
    entered(slot, place);
    return inserted;
}

void Keyed::insert_one(RowTree& tree, RowTree::Path& path, const Late& late, const Column& inputs) {
    tree.insert_at(path, late.place, [&](auto* leaf, uint32_t i) -> const int64_t* {
        int64_t* words = nodes_.row(leaf, i);
        fill(words, late.place, inputs, late.row);
        return words;
    });
}

struct Keyed::LateRows {
    const std::vector<Late>& late;
    size_t size() const { return late.size(); }
    const RowPlace& place(size_t i) const { return late[i].place; }
};

// The rows of a leaf and those that come into it; one that is there already comes twice.
class Keyed::LateScratch {
   public:
    LateScratch(Keyed& keyed, uint32_t slot, const Column& inputs, uint8_t* status)
        : keyed_(keyed), slot_(slot), inputs_(inputs), status_(status), stride_(keyed.shape_.stride) {}

    size_t size() const { return words_.size() / stride_; }
    void clear() { words_.clear(); }
    void add_entry(const tree::WordLeaf* leaf, uint32_t i) {
        const int64_t* row = keyed_.nodes_.row(leaf, i);
        words_.insert(words_.end(), row, row + stride_);
    }
    bool add_row(const LateRows& rows, size_t i) {
        const Late& late = rows.late[i];
        const int64_t* last = words_.empty() ? nullptr : words_.data() + words_.size() - stride_;
        if (last && last[RowShape::kTime] == late.place.time && last[RowShape::kTie] == late.place.tie) {
            status_[late.row] = repeated;
            return true;
        }
        words_.resize(words_.size() + stride_);
        keyed_.fill(words_.data() + words_.size() - stride_, late.place, inputs_, late.row);
        keyed_.entered(slot_, late.place);
        return true;
    }
    void write(size_t from, size_t to, tree::WordLeaf* leaf) {
        std::memcpy(leaf->words(), words_.data() + from * stride_, (to - from) * stride_ * sizeof(int64_t));
    }

   private:
    Keyed& keyed_;
    uint32_t slot_;
    const Column& inputs_;
    uint8_t* status_;
    size_t stride_;
    std::vector<int64_t>& words_ = keyed_.merged_;
};

// All rows of a key that are not appended, leaf by leaf. A leaf that gets many is merged; one that gets few opens gaps.
void Keyed::insert_late(uint32_t slot, const Column& inputs, uint8_t* status, bool ids) {
    constexpr size_t kFew = 4;
    auto before = [&](const Late& a, const Late& b) { return nodes_.less(a.place, b.place); };
    if (!std::is_sorted(late_.begin(), late_.end(), before)) std::stable_sort(late_.begin(), late_.end(), before);
    if (ids) {
        auto repeats = [&](const Late& a, const Late& b) {
            bool same = a.place.time == b.place.time && a.place.tie == b.place.tie;
            if (same) status[b.row] = repeated;
            return same;
        };
        late_.erase(std::unique(late_.begin(), late_.end(), repeats), late_.end());
    }
    RowTree tree = tree_of(slot);
    LateRows rows{late_};
    LateScratch scratch(*this, slot, inputs, status);
    for (size_t done = 0; done < late_.size();) {
        RowTree::Path path = tree.search(late_[done].place);
        size_t stop = tree.end_of_group(path, rows, done);
        if (stop - done > kFew) {
            tree.merge_group(path, rows, done, stop, scratch);
            done = stop;
            continue;
        }
        const Late& late = late_[done++];
        if (path.found) {
            status[late.row] = repeated;
            continue;
        }
        insert_one(tree, path, late, inputs);
        entered(slot, late.place);
    }
    late_.clear();
}

// --- panes ---------------------------------------------------------------------------------------------

// The record of a pane, which is there already or is made.
int64_t* Keyed::pane_at(uint32_t slot, int64_t time, bool& made) {
    RowTree tree = tree_of(slot);
    RowPlace place{placed(time), 0};
    made = false;
    if (auto* leaf = tree.start_if_empty(); tree.size()) {
        leaf = tree.right_leaf();
        int64_t* last = nodes_.row(leaf, leaf->end - 1);
        if (last[RowShape::kTime] == place.time) return last + shape_.inputs_at;  // most are of the last pane
    }
    int64_t* row = nullptr;
    auto write = [&](auto* leaf, uint32_t i) -> const int64_t* {
        row = nodes_.row(leaf, i);
        shape_.set_header(row, place, 0, 0);
        return row;
    };
    if (!tree.size() || nodes_.less(tree.newest(), place)) {
        tree.append(place, write);
    } else {
        RowTree::Path path = tree.search(place);
        if (path.found) {
            tree.mark_changed_at(path, path.position);
            return nodes_.row(path.leaf, path.position) + shape_.inputs_at;
        }
        tree.insert_at(path, place, write);
    }
    made = true;
    entered(slot, place);
    return row + shape_.inputs_at;
}

void Keyed::insert_in_pane(uint32_t slot, int64_t time, const Column& inputs, size_t row) {
    bool made;
    int64_t* record = pane_at(slot, time, made);
    if (made) std::fill_n(record, plan_->words(), 0);  // it travels as bytes, and equal panes have equal ones
    uint64_t nulls = read_inputs(inputs, row, scratch_.data());
    if (plan_->timed()) scratch_[plan_->time_at()] = frame_.rounded ? placed(time) : time;
    if (nulls)
        plan_->fold_nulls(record, scratch_.data(), nulls);
    else
        plan_->fold(record, {scratch_.data(), scratch_.size()}, 1);
}

void Keyed::join(const KeyBatch& batch, const int64_t* times, const int64_t* records, const uint8_t* late,
                 uint8_t* status) {
    for (uint32_t row : batch.order) {
        status[row] = late && late[row] ? too_late : inserted;
        if (status[row] == too_late) continue;
        const int64_t* record = records + size_t{row} * plan_->words();
        bool made;
        int64_t* into = pane_at(batch.slots[row], times[row], made);
        if (made)
            std::memcpy(into, record, plan_->words() * sizeof(int64_t));
        else
            plan_->join(into, record, 0, 1);
    }
}

void Keyed::panes(std::vector<uint32_t>& slots, std::vector<int64_t>& times, std::vector<int64_t>& records) {
    for (uint32_t slot = 0; slot < windows_.size(); ++slot)
        tree_of(slot).each_leaf([&](auto* leaf) {
            for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
                const int64_t* row = nodes_.row(leaf, i);
                slots.push_back(slot);
                times.push_back(row[RowShape::kTime]);
                records.insert(records.end(), row + shape_.inputs_at, row + shape_.stride);
            }
        });
}

// --- deletes -------------------------------------------------------------------------------------------

bool Keyed::awaits(uint32_t slot, RowPlace place) {
    if (!awaited_by(slot)) return false;
    return awaited_of(slot).search(place).found;
}

bool Keyed::await(uint32_t slot, RowPlace place) {
    if (!add_place(awaited_of(slot), place)) return false;
    newest_ = holds_any() ? std::max(newest_, place.time) : place.time;
    ++awaited_;
    forgetting_.lower(slot, place.time);
    return true;
}

bool Keyed::same_inputs(const int64_t* held, const Column& inputs, size_t row) const {
    uint64_t nulls = shape_.nulls_of(held);
    if (shape_.identity_at && held[shape_.identity_at] != batch_identities_[row]) return false;
    for (size_t i = 0; i < inputs.input_count; ++i) {
        const Column& input = inputs.inputs[i];
        bool null = input.nulls && input.nulls[row];
        if (null != static_cast<bool>(nulls >> i & 1)) return false;
        if (!null && held[shape_.inputs_at + i] != input.words[row]) return false;
    }
    return true;
}

// The first row of a time that is equal to one of the batch; its tie becomes the place's.
bool Keyed::find_same(RowTree& tree, RowPlace& place, const Column& inputs, size_t row) {
    if (!tree.size()) return false;
    for (RowCursor cursor(tree, {place.time, kFirstTie}); !cursor.at_end(); cursor.next()) {
        const int64_t* held = row_at(cursor);
        if (held[RowShape::kTime] != place.time) return false;
        place.tie = held[RowShape::kTie];
        if (same_inputs(held, inputs, row)) return true;
    }
    return false;
}

uint8_t Keyed::remove(uint32_t slot, RowPlace place, const Column& inputs, size_t row, bool ids) {
    RowTree tree = tree_of(slot);
    if (!ids && !find_same(tree, place, inputs, row)) return unmatched;
    RowTree::Path path;
    if (tree.size()) path = tree.search(place);
    if (path.found) erase(slot, tree, path, ids);
    if (!ids) return deleted;
    bool waits = !await(slot, place);  // a copy may still be on its way
    return path.found ? deleted : waits ? repeated : awaited;
}

void Keyed::erase(uint32_t slot, RowTree& tree, const RowTree::Path& path, bool ids) {
    const int64_t* held = nodes_.row(path.leaf, path.position);
    int64_t seq = RowShape::seq_of(held), time = held[RowShape::kTime];
    bool shown = frame_.remembers && held[RowShape::kMark];
    if (seq >= batch_seq_) batch_status_[seq - batch_seq_] = withdrawn;  // it came in this very batch
    if (frame_.remembers) touches_.push_back({slot, time, frame_.seen_until(time), held[RowShape::kTie]});
    if (frame_.idle) changes_.push_back({time, held[RowShape::kTie]});
    if (shown) gone_.push_back({slot, time, seq, ids});
    tree.evict_at(path);
    --rows_;
    if (frame_.gap && showing_.started()) lower_closing(slot);
    if (!tree.size()) return unsure_.push_back(slot);
    if (shown && !ids) show_again(tree, time);
}

// Rows that share their key and time with one that has gone were shown under the same name: what is shown there now is
// the one that has gone, perhaps.
void Keyed::show_again(RowTree& tree, int64_t time) {
    for (RowCursor cursor(tree, {time, kFirstTie}); !cursor.at_end() && cursor.place().time == time; cursor.next()) {
        int64_t& mark = nodes_.row(cursor.leaf(), cursor.position())[RowShape::kMark];
        if (mark) mark = kOtherMark;
    }
}

// --- expiry --------------------------------------------------------------------------------------------

void Keyed::start_expiring() {
    if (expiring_.started()) return;
    expiring_.start();
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        if (windows_[slot].rows.size) expiring_.lower(slot, tree_of(slot).oldest().time);
        if (open_.has(slot)) expiring_.lower(slot, later(open_.last(slot), frame_.gap));
    }
}

void Keyed::expire(int64_t bound, int64_t horizon) {
    if (!forgetting_.started()) {
        forgetting_.start();
        for (uint32_t slot = 0; slot < windows_.size(); ++slot)
            if (awaited_by(slot)) forgetting_.lower(slot, awaited_of(slot).oldest().time);
    }
    if (bound == INT64_MAX)
        drop(bound);  // the end of the stream: all rows go, those too that no agenda has
    else if (counts_)
        expire_counted(bound, horizon);
    else if (frame_.gap)
        start_expiring(), expire_sessions(bound, true);
    else
        expire_rows(bound);
    uint32_t slot;
    due_.clear();
    if (bound == INT64_MAX && horizon == INT64_MAX) {  // deletes too, among them those at the last instant
        for (uint32_t due = 0; due < windows_.size(); ++due)
            if (awaited_by(due)) awaited_of(due).free_all(), unsure_.push_back(due);
        awaited_ = 0;
    } else {
        while (horizon > INT64_MIN && forgetting_.take(horizon - 1, slot)) due_.push_back(slot);
    }
    for (uint32_t due : due_) {
        RowTree tree = awaited_of(due);
        awaited_ -= tree.evict_until({horizon, kFirstTie}, false);
        if (tree.size()) forgetting_.lower(due, tree.oldest().time);
        tree.shrink_leaf();
        free_if_empty(due);
    }
    for (uint32_t unsure : unsure_) free_if_empty(unsure);
    unsure_.clear();
    if (frame_.named && names_->size() > 2 * (rows_ + awaited_) + 1024) forget_names();
}

void Keyed::expire_rows(int64_t bound) {
    start_expiring();
    uint32_t slot;
    due_.clear();
    while (expiring_.take(bound, slot)) due_.push_back(slot);
    for (size_t i = 0; i < due_.size(); ++i) {
        prefetch(i, due_.size(), [&](size_t k) { return due_[k]; }, first_row);
        RowTree tree = tree_of(due_[i]);
        rows_ -= tree.evict_until({bound + 1, kFirstTie}, false);
        if (tree.size()) expiring_.lower(due_[i], tree.oldest().time);
        tree.shrink_leaf();
        free_if_empty(due_[i]);
    }
}

// Ids of rows that have left go too: those that are in use get new numbers. Places that part nodes outlive their rows.
void Keyed::forget_names() {
    auto kept = std::make_unique<Names>();
    auto rename = [&](int64_t& tie) { tie = kept->number_of(names_->name_of(tie)); };
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        tree_of(slot).each_place([&](RowPlace& place) { rename(place.tie); });
        if (awaited_by(slot)) awaited_of(slot).each_place([&](RowPlace& place) { rename(place.tie); });
        if (breaks_in(slot)) breaks_of(slot).each_place([&](RowPlace& place) { rename(place.tie); });
    }
    names_ = std::move(kept);
    nodes_.set_order(names_.get());
    awaited_nodes_.set_order(names_.get());
}

}  // namespace sash
