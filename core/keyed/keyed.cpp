// An engine and its keys: which number each key has, and how batches are grouped by key.
#include "keyed/keyed.hpp"

#include <tuple>

#include "base/hash.hpp"

namespace sash {

namespace {

RowShape shape_of(const Plan& plan, const Frame& frame) {
    RowShape shape;
    shape.merged = frame.merged;
    shape.inputs_at = plan.width() > RowShape::kNullBits && !frame.merged ? RowShape::kNulls + 1 : RowShape::kNulls;
    shape.stride = shape.inputs_at + (frame.merged ? plan.words() : plan.width());
    if (frame.identified) shape.identity_at = shape.stride++;
    return shape;
}

// A leaf of panes is folded by joins, which cost more than folds of rows do.
uint32_t capacity_of(const Frame& frame) {
    if (frame.leaf_capacity) return frame.leaf_capacity;
    return frame.merged ? 32 : 64;
}

uint32_t fanout_of(const Frame& frame) { return frame.fanout ? frame.fanout : 16; }

}  // namespace

Keyed::Keyed(std::shared_ptr<const Plan> plan, Frame frame)
    : plan_(std::move(plan)),
      frame_(std::move(frame)),
      shape_(shape_of(*plan_, frame_)),
      names_(std::make_unique<Names>()),
      nodes_(shape_.stride, capacity_of(frame_), fanout_of(frame_), plan_->words() + (frame_.gap ? Gaps::kWords : 0)),
      awaited_nodes_(2, frame_.leaf_capacity ? frame_.leaf_capacity : 64, fanout_of(frame_), 0),
      algebra_(*plan_, shape_, nodes_, plan_->commutes() && !shape_.merged, frame_.gap > 0),
      awaited_algebra_(*plan_, shape_, awaited_nodes_, false),
      progress_(std::make_unique<std::atomic<size_t>>(0)),
      open_(plan_->words()) {
    if (frame_.named) {
        nodes_.set_order(names_.get());
        awaited_nodes_.set_order(names_.get());
    }
    counts_ = frame_.counts();
    ranked_ = frame_.most_rows() && frame_.ends_inside && !frame_.on_grid();
    table_.resize(16);
    scratch_.resize(plan_->width());
}

Keyed::~Keyed() {
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) tree_of(slot).free_all();
    for (uint32_t slot = 0; slot < awaited_spines_.size(); ++slot) awaited_of(slot).free_all();
    for (uint32_t slot = 0; slot < break_spines_.size(); ++slot) breaks_of(slot).free_all();
}

// --- keys ----------------------------------------------------------------------------------------------

KeyBatch Keyed::batch_of(const KeyColumns* keys, size_t rows, int64_t seq) {
    KeyBatch batch{std::vector<uint32_t>(rows), {}, seq, generation_};
    if (!keys && rows) std::fill(batch.slots.begin(), batch.slots.end(), slot_of("", hash_of("")));
    if (keys) find_slots(*keys, batch.slots);
    group(rows, [&](size_t row) { return batch.slots[row]; }, batch.order);
    return batch;
}

// Some keys at a time, so that the table and the keys in it are fetched for all of them at once.
void Keyed::find_slots(const KeyColumns& keys, std::vector<uint32_t>& slots) {
    constexpr size_t kBlock = 32;
    std::string names[kBlock];
    uint32_t hashes[kBlock];
    for (size_t first = 0; first < slots.size(); first += kBlock) {
        size_t count = std::min(kBlock, slots.size() - first);
        for (size_t i = 0; i < count; ++i) {
            names[i].clear();
            keys.append(names[i], first + i);
            hashes[i] = hash_of(names[i]);
            __builtin_prefetch(&table_[hashes[i] & (table_.size() - 1)]);
        }
        for (size_t i = 0; i < count; ++i)
            if (uint32_t found = table_[hashes[i] & (table_.size() - 1)]) __builtin_prefetch(&windows_[found - 1]);
        for (size_t i = 0; i < count; ++i) slots[first + i] = slot_of(names[i], hashes[i]);
    }
}

void Keyed::require_current(uint64_t generation) const {
    if (generation != generation_)
        fail(ErrorKind::argument,
             "The batch or anchors must be of the engine's current keys, but keys have expired since.");
}

// The order in which those of one slot lie together: by counting, which is stable, and linear in what there is to order.
template <class SlotOf>
void Keyed::group(size_t count, SlotOf&& slot_of, std::vector<uint32_t>& order) {
    ++epoch_;
    sizes_.clear();
    for (size_t i = 0; i < count; ++i) {
        KeyWindow& window = windows_[slot_of(i)];
        if (window.epoch != epoch_) {
            window.epoch = epoch_;
            window.group = static_cast<uint32_t>(sizes_.size());
            sizes_.push_back(0);
        }
        ++sizes_[window.group];
    }
    uint32_t start = 0;
    for (uint32_t& size : sizes_) start += std::exchange(size, start);
    order.resize(count);
    for (size_t i = 0; i < count; ++i) order[sizes_[windows_[slot_of(i)].group]++] = static_cast<uint32_t>(i);
}

std::vector<uint32_t> Keyed::keys_of(const std::vector<Anchor>& anchors, std::vector<int64_t>& places) {
    std::vector<uint32_t> slots;
    places.resize(anchors.size());
    ++epoch_;
    for (size_t i = 0; i < anchors.size(); ++i) {
        if (i && anchors[i].slot == anchors[i - 1].slot) {
            places[i] = places[i - 1];
            continue;
        }
        KeyWindow& window = windows_[anchors[i].slot];
        if (window.epoch != epoch_) {
            window.epoch = epoch_;
            window.group = static_cast<uint32_t>(slots.size());
            slots.push_back(anchors[i].slot);
        }
        places[i] = window.group;
    }
    return slots;
}

// The order of anchors of a key: by time, and where windows begin and end among the rows of one time also by those.
bool Keyed::precedes(const Anchor& a, const Anchor& b) const {
    return ranked_ ? nodes_.less({a.time, a.tie}, {b.time, b.tie}) : a.time < b.time;
}

// Are anchors of one key side by side, in order?
bool Keyed::is_ordered(const std::vector<Anchor>& anchors) {
    ++epoch_;
    for (size_t i = 0; i < anchors.size(); ++i) {
        if (i && anchors[i].slot == anchors[i - 1].slot) {
            if (precedes(anchors[i], anchors[i - 1])) return false;
            continue;
        }
        KeyWindow& window = windows_[anchors[i].slot];
        if (window.epoch == epoch_) return false;
        window.epoch = epoch_;
    }
    return true;
}

std::vector<uint32_t> Keyed::by_key_and_time(const std::vector<Anchor>& anchors) {
    std::vector<uint32_t> order(anchors.size());
    if (is_ordered(anchors)) {
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
        return order;
    }
    group(anchors.size(), [&](size_t i) { return anchors[i].slot; }, order);
    auto earlier = [&](uint32_t a, uint32_t b) { return precedes(anchors[a], anchors[b]); };
    for (size_t first = 0; first < order.size();) {
        size_t last = first + 1;
        while (last < order.size() && anchors[order[last]].slot == anchors[order[first]].slot) ++last;
        auto begin = order.begin() + static_cast<ptrdiff_t>(first), end = order.begin() + static_cast<ptrdiff_t>(last);
        if (!std::is_sorted(begin, end, earlier)) std::stable_sort(begin, end, earlier);
        first = last;
    }
    return order;
}

uint32_t Keyed::hash_of(const std::string& key) { return static_cast<uint32_t>(hash64(key.data(), key.size(), 0)); }

// Where the table has a key, or the hole where it would stand.
size_t Keyed::place_of(const std::string& key, uint32_t hash) const {
    size_t mask = table_.size() - 1, at = hash & mask;
    for (; table_[at]; at = (at + 1) & mask) {
        const KeyWindow& window = windows_[table_[at] - 1];
        if (window.hash == hash && window.key == key) break;
    }
    return at;
}

uint32_t Keyed::find_slot(const std::string& key) const { return table_[place_of(key, hash_of(key))] - 1; }

uint32_t Keyed::slot_of(const std::string& key, uint32_t hash) {
    size_t at = place_of(key, hash);
    if (table_[at]) return table_[at] - 1;
    uint32_t slot;
    if (free_.empty()) {
        slot = static_cast<uint32_t>(windows_.size());
        windows_.emplace_back();
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    windows_[slot].key = key;
    key_bytes_ += string_bytes(windows_[slot].key);
    windows_[slot].hash = hash;
    windows_[slot].live = true;
    table_[at] = slot + 1;
    unsure_.push_back(slot);  // until it has a row
    if (live_keys() * 2 > table_.size()) rehash(table_.size() * 2);
    return slot;
}

void Keyed::rehash(size_t size) {
    table_.assign(size, 0);
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        if (!windows_[slot].live) continue;
        size_t at = home_of(slot);
        while (table_[at]) at = (at + 1) & (size - 1);
        table_[at] = slot + 1;
    }
}

// The entries behind it move up, so that no search stops at the hole.
void Keyed::free_slot(uint32_t slot) {
    size_t mask = table_.size() - 1, hole = home_of(slot);
    while (table_[hole] != slot + 1) hole = (hole + 1) & mask;
    for (size_t at = (hole + 1) & mask; table_[at]; at = (at + 1) & mask) {
        size_t home = home_of(table_[at] - 1);
        if (((at - home) & mask) < ((at - hole) & mask)) continue;  // it would come to stand before its home
        table_[hole] = table_[at];
        hole = at;
    }
    table_[hole] = 0;
    tree_of(slot).free_all();
    if (slot < awaited_spines_.size()) awaited_of(slot).free_all();
    if (slot < break_spines_.size()) breaks_of(slot).free_all();
    forget_before(slot);
    key_bytes_ -= string_bytes(windows_[slot].key);
    windows_[slot] = KeyWindow();
    open_.drop(slot);
    for (Agenda* agenda : {&expiring_, &forgetting_, &showing_, &settling_}) agenda->forget(slot);
    free_.push_back(slot);
    ++generation_;
}

void Keyed::free_if_empty(uint32_t slot) {
    if (windows_[slot].live && !stays(slot)) free_slot(slot);
}

size_t Keyed::live_bytes() const {
    size_t agendas = expiring_.bytes() + forgetting_.bytes() + showing_.bytes() + settling_.bytes();
    size_t slots = table_.capacity() + free_.capacity() + unsure_.capacity() + due_.capacity() + sizes_.capacity();
    size_t spines = (awaited_spines_.capacity() + break_spines_.capacity()) * sizeof(tree::SmallSpines);
    size_t keys = windows_.size() * sizeof(KeyWindow) + key_bytes_ + slots * sizeof(uint32_t) + spines;
    size_t words = scratch_.capacity() + merged_.capacity() + table_rows_.capacity() + before_.capacity();
    size_t work = words * sizeof(int64_t) + late_.capacity() * sizeof(Late) + spans_.capacity() * sizeof(RowSpan) +
                  touches_.capacity() * sizeof(Touch) + gone_.capacity() * sizeof(Gone) +
                  changes_.capacity() * sizeof(RowPlace);
    return nodes_.bytes() + awaited_nodes_.bytes() + names_->bytes() + open_.bytes() + keys + agendas + work;
}

}  // namespace sash
