#include "keyed.hpp"

#include <tuple>

#include "hash.hpp"

namespace sash {

Keyed::Keyed(std::shared_ptr<const Plan> plan, Frame frame)
    : plan_(std::move(plan)),
      frame_(std::move(frame)),
      names_(std::make_unique<Names>()),
      progress_(std::make_unique<std::atomic<size_t>>(0)) {
    shape_.inputs_at = plan_->width() > Run::kNullBits && !frame_.merged ? Run::kNulls + 1 : Run::kNulls;
    shape_.stride = shape_.inputs_at + (frame_.merged ? plan_->words() : plan_->width());
    if (frame_.merged) shape_.block = 16;  // joins cost more than folds do
    if (frame_.named) shape_.names = names_.get();
    for (int64_t size : frame_.sizes) largest_ = std::max(largest_, size);
    table_.resize(16);
    scratch_.resize(plan_->width());
}

// --- keys ----------------------------------------------------------------------------------------------

void Keyed::begin(const KeyColumns* keys, size_t rows) {
    std::string key;
    slots_.resize(rows);
    if (!keys && rows) std::fill(slots_.begin(), slots_.end(), slot_of(key));
    for (size_t row = 0; keys && row < rows; ++row) {
        key.clear();
        keys->append(key, row);
        slots_[row] = slot_of(key);
    }
    order_ = grouped(rows, [&](size_t row) { return slots_[row]; });
}

// The order in which those of one slot lie together: by counting, which is stable and linear.
template <class SlotOf>
std::vector<uint32_t> Keyed::grouped(size_t count, SlotOf&& slot_of) const {
    std::vector<uint32_t> order(count), starts(windows_.size() + 1);
    for (size_t i = 0; i < count; ++i) ++starts[slot_of(i) + 1];
    for (size_t slot = 1; slot < starts.size(); ++slot) starts[slot] += starts[slot - 1];
    for (size_t i = 0; i < count; ++i) order[starts[slot_of(i)]++] = static_cast<uint32_t>(i);
    return order;
}

std::vector<uint32_t> Keyed::by_key_and_time(const std::vector<Anchor>& anchors) const {
    std::vector<uint32_t> order = grouped(anchors.size(), [&](size_t i) { return anchors[i].slot; });
    auto earlier = [&](uint32_t a, uint32_t b) { return anchors[a].time < anchors[b].time; };
    for (size_t first = 0; first < order.size();) {
        size_t last = first + 1;
        while (last < order.size() && anchors[order[last]].slot == anchors[order[first]].slot) ++last;
        auto begin = order.begin() + static_cast<ptrdiff_t>(first), end = order.begin() + static_cast<ptrdiff_t>(last);
        if (!std::is_sorted(begin, end, earlier)) std::stable_sort(begin, end, earlier);
        first = last;
    }
    return order;
}

uint32_t Keyed::slot_of(const std::string& key) {
    size_t mask = table_.size() - 1, at = hash64(key.data(), key.size(), 0) & mask;
    for (; table_[at]; at = (at + 1) & mask)
        if (windows_[table_[at] - 1].key == key) return table_[at] - 1;
    uint32_t slot;
    if (free_.empty()) {
        slot = static_cast<uint32_t>(windows_.size());
        windows_.emplace_back();
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    windows_[slot].key = key;
    windows_[slot].live = true;
    table_[at] = slot + 1;
    if (live_keys() * 2 > table_.size()) rehash(table_.size() * 2);
    return slot;
}

void Keyed::rehash(size_t size) {
    table_.assign(size, 0);
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        if (!windows_[slot].live) continue;
        const std::string& key = windows_[slot].key;
        size_t at = hash64(key.data(), key.size(), 0) & (size - 1);
        while (table_[at]) at = (at + 1) & (size - 1);
        table_[at] = slot + 1;
    }
}

// The table is made anew by whoever frees many; a single slot leaves no hole that a search would stop at.
void Keyed::free_slot(uint32_t slot) {
    windows_[slot] = KeyWindow();
    free_.push_back(slot);
}

// --- rows ----------------------------------------------------------------------------------------------

void Keyed::apply(const int64_t* times, const int64_t* ids, const uint8_t* deletes, const uint8_t* late, int64_t seq,
                  const Column& inputs, uint8_t* status) {
    batch_seq_ = seq;
    batch_status_ = status;
    for (size_t first = 0; first < order_.size();) {
        size_t last = first + 1;
        while (last < order_.size() && slots_[order_[last]] == slots_[order_[first]]) ++last;
        apply_key(order_.data() + first, last - first, times, ids, deletes, late, inputs, status);
        first = last;
    }
}

void Keyed::apply_key(const uint32_t* rows, size_t count, const int64_t* times, const int64_t* ids,
                      const uint8_t* deletes, const uint8_t* late, const Column& inputs, uint8_t* status) {
    uint32_t slot = slots_[rows[0]];
    for (size_t i = 0; i < count; ++i) {
        uint32_t row = rows[i];
        if (late && late[row]) {
            status[row] = too_late;
        } else if (frame_.merged) {
            insert_in_pane(windows_[slot].rows, times[row], inputs, row);
            status[row] = inserted;
        } else {
            int64_t time = placed(times[row]), tie = ids ? ids[row] : batch_seq_ + row;
            if (deletes && deletes[row])
                status[row] = remove(slot, time, tie, inputs, row, ids != nullptr);
            else
                status[row] = insert(slot, time, tie, inputs, row, ids != nullptr, !deletes);
        }
    }
    if (!late_.empty()) insert_late(slot, inputs, status);
}

void Keyed::fill(int64_t* words, int64_t time, int64_t tie, const Column& inputs, uint32_t row) const {
    uint64_t nulls = read_inputs(inputs, row, words + shape_.inputs_at);
    if (plan_->timed()) words[shape_.inputs_at + plan_->time_at()] = time;
    Run::set_header(words, time, tie, batch_seq_ + row, nulls, shape_);
}

// A row that goes far back waits for the others of its key that do, where `may_wait`.
uint8_t Keyed::insert(uint32_t slot, int64_t time, int64_t tie, const Column& inputs, uint32_t row, bool ids,
                      bool may_wait) {
    constexpr uint32_t kFar = 64;
    KeyWindow& window = windows_[slot];
    uint32_t at = window.rows.find(time, tie, shape_);
    if (ids) {
        if (at < window.rows.size()) {
            const int64_t* held = window.rows.row(at, shape_);
            if (held[Run::kTime] == time && held[Run::kTie] == tie) return repeated;
        }
        if (window.awaits(time, tie)) return repeated;
    }
    if (may_wait && window.rows.size() - at > kFar) {
        late_.push_back({time, tie, row});
        return inserted;
    }
    fill(window.rows.open(at, shape_), time, tie, inputs, row);
    ++rows_;
    if (frame_.remembers) touches_.push_back({slot, time});
    return inserted;
}

// All rows of a key that go far back, in one go along its rows from the end.
void Keyed::insert_late(uint32_t slot, const Column& inputs, uint8_t* status) {
    Run& rows = windows_[slot].rows;
    auto before = [&](int64_t time, int64_t tie, int64_t other, int64_t other_tie) {
        return time < other || (time == other && shape_.tie_less(tie, other_tie));
    };
    std::stable_sort(late_.begin(), late_.end(),
                     [&](const Late& a, const Late& b) { return before(a.time, a.tie, b.time, b.tie); });
    auto repeats = [&](const Late& a, const Late& b) {
        if (a.time != b.time || a.tie != b.tie) return false;
        status[b.row] = repeated;
        return true;
    };
    late_.erase(std::unique(late_.begin(), late_.end(), repeats), late_.end());
    uint32_t from = rows.size(), at = from + static_cast<uint32_t>(late_.size());
    rows.grow(static_cast<uint32_t>(late_.size()), shape_);
    for (size_t left = late_.size(); left > 0;) {
        const Late& late = late_[left - 1];
        const int64_t* row = from ? rows.row(from - 1, shape_) : nullptr;
        int64_t* into = rows.row(--at, shape_);
        if (row && before(late.time, late.tie, row[Run::kTime], row[Run::kTie])) {
            std::memcpy(into, row, shape_.stride * sizeof(int64_t));
            --from;
        } else {
            fill(into, late.time, late.tie, inputs, late.row);
            if (frame_.remembers) touches_.push_back({slot, late.time});
            --left;
        }
    }
    rows.forget_from(at, shape_);
    rows_ += late_.size();
    late_.clear();
}

// The record of a pane, which is there already or is made.
int64_t* Keyed::pane_at(Run& rows, int64_t time, bool& made) {
    int64_t pane = placed(time);
    uint32_t at = rows.size();
    if (at && rows.time(at - 1, shape_) == pane)
        --at;  // most are of the last pane
    else
        at = rows.find(pane, shape_);
    made = at == rows.size() || rows.time(at, shape_) != pane;
    if (!made) {
        rows.forget_from(at, shape_);
        return rows.row(at, shape_) + shape_.inputs_at;
    }
    int64_t* row = rows.open(at, shape_);
    Run::set_header(row, pane, 0, 0, 0, shape_);
    ++rows_;
    return row + shape_.inputs_at;
}

void Keyed::insert_in_pane(Run& rows, int64_t time, const Column& inputs, size_t row) {
    bool made;
    int64_t* record = pane_at(rows, time, made);
    if (made) Plan::clear(record);
    uint64_t nulls = read_inputs(inputs, row, scratch_.data());
    if (plan_->timed()) scratch_[plan_->time_at()] = frame_.rounded ? placed(time) : time;
    if (nulls)
        plan_->fold_nulls(record, scratch_.data(), nulls);
    else
        plan_->fold(record, {scratch_.data(), scratch_.size()}, 1);
}

void Keyed::join(const int64_t* times, const int64_t* records, const uint8_t* late, uint8_t* status) {
    for (uint32_t row : order_) {
        status[row] = late && late[row] ? too_late : inserted;
        if (status[row] == too_late) continue;
        const int64_t* record = records + size_t{row} * plan_->words();
        bool made;
        int64_t* into = pane_at(windows_[slots_[row]].rows, times[row], made);
        if (made)
            std::memcpy(into, record, plan_->words() * sizeof(int64_t));
        else
            plan_->join(into, record, 0, 1);
    }
}

void Keyed::panes(std::vector<uint32_t>& slots, std::vector<int64_t>& times, std::vector<int64_t>& records) const {
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        const Run& rows = windows_[slot].rows;
        for (uint32_t i = 0; i < rows.size(); ++i) {
            const int64_t* row = rows.row(i, shape_);
            slots.push_back(slot);
            times.push_back(row[Run::kTime]);
            records.insert(records.end(), row + shape_.inputs_at, row + shape_.stride);
        }
    }
}

bool Keyed::same_inputs(const int64_t* held, const Column& inputs, size_t row) const {
    uint64_t nulls = Run::nulls_of(held, shape_);
    for (size_t i = 0; i < inputs.input_count; ++i) {
        const Column& input = inputs.inputs[i];
        bool null = input.nulls && input.nulls[row];
        if (null != static_cast<bool>(nulls >> i & 1)) return false;
        if (!null && held[shape_.inputs_at + i] != input.words[row]) return false;
    }
    return true;
}

uint8_t Keyed::remove(uint32_t slot, int64_t time, int64_t tie, const Column& inputs, size_t row, bool ids) {
    KeyWindow& window = windows_[slot];
    uint32_t at = window.rows.find(time, ids ? tie : INT64_MIN, shape_);
    for (; at < window.rows.size(); ++at) {
        const int64_t* held = window.rows.row(at, shape_);
        if (held[Run::kTime] != time || (ids && held[Run::kTie] != tie)) break;
        if (!ids && !same_inputs(held, inputs, row)) continue;
        erase(slot, at);
        if (ids) window.await(time, tie);  // a copy may still be on its way
        return deleted;
    }
    if (!ids) return unmatched;
    if (window.awaits(time, tie)) return repeated;
    window.await(time, tie);
    return awaited;
}

void Keyed::erase(uint32_t slot, uint32_t at) {
    Run& rows = windows_[slot].rows;
    const int64_t* held = rows.row(at, shape_);
    int64_t seq = Run::seq_of(held);
    if (seq >= batch_seq_) batch_status_[seq - batch_seq_] = withdrawn;  // it came in this very batch
    if (frame_.remembers) {
        if (held[Run::kMark]) gone_.push_back(anchor_of(slot, held));
        touches_.push_back({slot, held[Run::kTime]});
    }
    rows.close(at, at + 1, shape_);
    --rows_;
}

void Keyed::expire(int64_t bound, int64_t horizon) {
    size_t freed = 0;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        KeyWindow& window = windows_[slot];
        if (!window.live) continue;
        if (window.rows.size() && window.rows.time(0, shape_) <= bound) {
            uint32_t to = bound == INT64_MAX ? window.rows.size() : window.rows.find(bound + 1, shape_);
            window.rows.close(0, to, shape_);
            rows_ -= to;
        }
        if (!window.awaited.empty()) {
            auto past = [&](const std::pair<int64_t, int64_t>& waiting) { return waiting.first < horizon; };
            window.awaited.erase(std::remove_if(window.awaited.begin(), window.awaited.end(), past),
                                 window.awaited.end());
        }
        if (window.rows.size() == 0 && window.awaited.empty()) {
            free_slot(slot);
            ++freed;
        }
    }
    if (freed) {
        size_t size = 16;
        while (size < live_keys() * 2 + 1) size *= 2;
        rehash(size);
    }
    if (frame_.named && names_->size() > 2 * rows_ + 1024) forget_names();
}

// Ids of rows that have left go too: those that are in use get new numbers.
void Keyed::forget_names() {
    auto kept = std::make_unique<Names>();
    auto renamed = [&](int64_t tie) { return kept->number_of(names_->name_of(tie)); };
    for (KeyWindow& window : windows_) {
        for (uint32_t i = 0; i < window.rows.size(); ++i) {
            int64_t* row = window.rows.row(i, shape_);
            row[Run::kTie] = renamed(row[Run::kTie]);
        }
        for (auto& waiting : window.awaited) waiting.second = renamed(waiting.second);
        std::sort(window.awaited.begin(), window.awaited.end());
    }
    names_ = std::move(kept);
    shape_.names = names_.get();
}

// --- bytes ---------------------------------------------------------------------------------------------

namespace {

template <class T>
void put(std::string& bytes, const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Takes values off the front, as long as there are any.
class Reader {
   public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}
    bool take(void* into, size_t size) {
        if (bytes_.size() < size) return false;
        if (size) std::memcpy(into, bytes_.data(), size);
        bytes_.remove_prefix(size);
        return true;
    }
    bool take(std::string& text) {
        uint32_t size;
        if (!take(&size, sizeof size) || left() < size) return false;
        text.resize(size);
        return take(text.data(), size);
    }
    size_t left() const { return bytes_.size(); }

   private:
    std::string_view bytes_;
};

void put_text(std::string& bytes, const std::string& text) {
    put(bytes, static_cast<uint32_t>(text.size()));
    bytes += text;
}

}  // namespace

void Keyed::dump(std::string& bytes) const {
    put(bytes, static_cast<uint64_t>(names_->size()));
    for (size_t i = 0; i < names_->size(); ++i) put_text(bytes, names_->name_of(static_cast<int64_t>(i)));
    for (const KeyWindow& window : windows_) {
        if (!window.live) continue;
        put_text(bytes, window.key);
        put(bytes, window.rows.size());
        if (window.rows.size())
            bytes.append(reinterpret_cast<const char*>(window.rows.row(0, shape_)),
                         size_t{window.rows.size()} * shape_.stride * sizeof(int64_t));
        put(bytes, static_cast<uint32_t>(window.awaited.size()));
        for (auto& [time, tie] : window.awaited) put(bytes, time), put(bytes, tie);
    }
}

bool Keyed::load(std::string_view bytes) {
    Reader reader(bytes);
    uint64_t names;
    std::string text;
    if (!reader.take(&names, sizeof names)) return false;
    for (uint64_t i = 0; i < names; ++i)
        if (!reader.take(text) || names_->number_of(text) != static_cast<int64_t>(i)) return false;
    while (reader.left()) {
        uint32_t rows, waiting;
        size_t keys = live_keys();
        if (!reader.take(text) || !reader.take(&rows, sizeof rows)) return false;
        if (reader.left() / (shape_.stride * sizeof(int64_t)) < rows) return false;
        KeyWindow& window = windows_[slot_of(text)];
        if (live_keys() == keys) return false;  // a key twice
        for (uint32_t i = 0; i < rows; ++i) {
            int64_t* row = window.rows.open(i, shape_);
            if (!reader.take(row, shape_.stride * sizeof(int64_t))) return false;
            if (frame_.named && !names_->knows(row[Run::kTie])) return false;
            if (frame_.merged && !plan_->sound(row + shape_.inputs_at)) return false;
            const int64_t* last = i ? window.rows.row(i - 1, shape_) : nullptr;
            bool ordered = !last || last[Run::kTime] < row[Run::kTime] ||
                           (last[Run::kTime] == row[Run::kTime] && shape_.tie_less(last[Run::kTie], row[Run::kTie]));
            if (!ordered) return false;
        }
        rows_ += rows;
        if (!reader.take(&waiting, sizeof waiting) || reader.left() / 16 < waiting) return false;
        for (uint32_t i = 0; i < waiting; ++i) {
            std::pair<int64_t, int64_t> pair;
            if (!reader.take(&pair.first, 8) || !reader.take(&pair.second, 8)) return false;
            if (frame_.named && !names_->knows(pair.second)) return false;
            window.await(pair.first, pair.second);
        }
    }
    return true;
}

}  // namespace sash
