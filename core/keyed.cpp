#include "keyed.hpp"

#include <algorithm>
#include <tuple>

#include "hash.hpp"
#include "sorted.hpp"

namespace sash {

// --- rows of one key -----------------------------------------------------------------------------------

int64_t* Run::open(uint32_t at, uint32_t stride) {
    if (size_ == room_) {
        uint32_t room = room_ ? room_ + room_ / 2 + 1 : 2;
        void* memory = std::realloc(words_, size_t{room} * stride * sizeof(int64_t));
        if (!memory) throw std::bad_alloc();
        words_ = static_cast<int64_t*>(memory);
        room_ = room;
    }
    forget_from(at);
    int64_t* gap = row(at, stride);
    std::memmove(gap + stride, gap, size_t{size_ - at} * stride * sizeof(int64_t));
    ++size_;
    return gap;
}

void Run::close(uint32_t from, uint32_t to, uint32_t stride) {
    if (from == to) return;
    if (from == 0)
        dropped_ += to;
    else
        forget_from(from);
    std::memmove(row(from, stride), row(to, stride), size_t{size_ - to} * stride * sizeof(int64_t));
    size_ -= to - from;
    if (size_ == 0) {
        std::free(std::exchange(words_, nullptr));
        room_ = 0;
        blocks_.reset();
    } else if (size_ < room_ / 4) {
        void* memory = std::realloc(words_, size_t{size_} * stride * sizeof(int64_t));
        if (memory) words_ = static_cast<int64_t*>(memory), room_ = size_;
    }
}

// --- keys ----------------------------------------------------------------------------------------------

Keyed::Keyed(std::shared_ptr<const Plan> plan, std::vector<int64_t> sizes, bool closed_left, bool remembers)
    : plan_(std::move(plan)),
      sizes_(std::move(sizes)),
      closed_left_(closed_left),
      remembers_(remembers),
      stride_(Run::kInputs + plan_->width()) {
    for (int64_t size : sizes_) largest_ = std::max(largest_, size);
    table_.resize(16);
}

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
    for (uint32_t row : order_) {
        if (late && late[row]) {
            status[row] = too_late;
            continue;
        }
        uint32_t slot = slots_[row];
        int64_t own = seq + row, tie = ids ? ids[row] : own;
        if (deletes && deletes[row])
            status[row] = remove(slot, times[row], tie, inputs, row, ids != nullptr);
        else
            status[row] = insert(windows_[slot], times[row], tie, own, inputs, row, ids != nullptr);
        if (remembers_ && status[row] == inserted) changes_.push_back({slot, times[row]});
    }
}

uint8_t Keyed::insert(KeyWindow& window, int64_t time, int64_t tie, int64_t seq, const Column& inputs, size_t row,
                      bool ids) {
    uint32_t at = window.rows.find(time, tie, stride_);
    if (ids) {
        if (at < window.rows.size()) {
            const int64_t* held = window.rows.row(at, stride_);
            if (held[Run::kTime] == time && held[Run::kTie] == tie) return repeated;
        }
        for (auto& waiting : window.awaited)
            if (waiting == std::make_pair(time, tie)) return repeated;
    }
    int64_t* words = window.rows.open(at, stride_);
    uint64_t nulls = read_inputs(inputs, row, words + Run::kInputs);
    if (plan_->timed()) words[Run::kInputs + plan_->time_at()] = time;
    words[Run::kTime] = time;
    words[Run::kTie] = tie;
    words[Run::kSeq] = static_cast<int64_t>(static_cast<uint64_t>(seq) << Run::kNullBits | nulls);
    words[Run::kMark] = 0;
    ++rows_;
    return inserted;
}

bool Keyed::same_inputs(const int64_t* held, const Column& inputs, size_t row) const {
    uint64_t nulls = Run::nulls_of(held);
    for (size_t i = 0; i < inputs.input_count; ++i) {
        const Column& input = inputs.inputs[i];
        bool null = input.nulls && input.nulls[row];
        if (null != static_cast<bool>(nulls >> i & 1)) return false;
        if (!null && held[Run::kInputs + i] != input.words[row]) return false;
    }
    return true;
}

uint8_t Keyed::remove(uint32_t slot, int64_t time, int64_t tie, const Column& inputs, size_t row, bool ids) {
    KeyWindow& window = windows_[slot];
    uint32_t at = window.rows.find(time, ids ? tie : INT64_MIN, stride_);
    for (; at < window.rows.size(); ++at) {
        const int64_t* held = window.rows.row(at, stride_);
        if (held[Run::kTime] != time || (ids && held[Run::kTie] != tie)) break;
        if (!ids && !same_inputs(held, inputs, row)) continue;
        erase(slot, at);
        if (ids) window.awaited.push_back({time, tie});  // a copy may still be on its way
        return deleted;
    }
    if (!ids) return unmatched;
    for (auto& waiting : window.awaited)
        if (waiting == std::make_pair(time, tie)) return repeated;
    window.awaited.push_back({time, tie});
    return awaited;
}

void Keyed::erase(uint32_t slot, uint32_t at) {
    Run& rows = windows_[slot].rows;
    const int64_t* held = rows.row(at, stride_);
    int64_t seq = Run::seq_of(held);
    if (seq >= batch_seq_) batch_status_[seq - batch_seq_] = withdrawn;  // it came in this very batch
    if (remembers_) {
        if (held[Run::kMark]) gone_.push_back(anchor_of(slot, held));
        changes_.push_back({slot, held[Run::kTime]});
    }
    rows.close(at, at + 1, stride_);
    --rows_;
}

void Keyed::expire(int64_t bound, int64_t horizon) {
    size_t freed = 0;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        KeyWindow& window = windows_[slot];
        if (!window.live) continue;
        if (window.rows.size() && window.rows.row(0, stride_)[Run::kTime] <= bound) {
            uint32_t to = bound == INT64_MAX ? window.rows.size() : window.rows.find(bound + 1, INT64_MIN, stride_);
            window.rows.close(0, to, stride_);
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
}

// --- tables that are all there --------------------------------------------------------------------------

bool Keyed::rolls(const Column& inputs) const {
    for (size_t i = 0; i < inputs.input_count; ++i)
        if (inputs.inputs[i].nulls) return false;
    for (const Op& op : plan_->ops())
        if (op.words ? op.step == Step::other || op.table->timed : op.reads.size() > 0) return false;
    return true;
}

bool Keyed::roll(const int64_t* times, const Column& inputs, std::vector<RecordOutput>& outs) {
    if (!rolls(inputs)) return false;
    auto earlier = [&](uint32_t a, uint32_t b) { return times[a] < times[b]; };
    for (size_t first = 0; first < order_.size();) {
        size_t last = first + 1;
        while (last < order_.size() && slots_[order_[last]] == slots_[order_[first]]) ++last;
        auto begin = order_.begin() + static_cast<ptrdiff_t>(first),
             end = order_.begin() + static_cast<ptrdiff_t>(last);
        bool sorted = std::is_sorted(begin, end, earlier);
        if (!sorted) std::stable_sort(begin, end, earlier);
        bool whole = sorted && last - first == order_.size();  // one key: rows lie as they are
        roll_key(times, whole ? nullptr : order_.data() + first, last - first, inputs, outs);
        first = last;
    }
    return true;
}

void Keyed::roll_key(const int64_t* times, const uint32_t* order, size_t count, const Column& inputs,
                     std::vector<RecordOutput>& outs) const {
    auto time = [&](size_t i) { return times[order ? order[i] : i]; };
    std::vector<uint32_t> from(count), to(count);
    for (size_t i = 0, edge = 0; i < count; to[i++] = static_cast<uint32_t>(edge))
        while (edge < count && (closed_left_ ? time(edge) < time(i) : time(edge) <= time(i))) ++edge;
    for (size_t w = 0; w < sizes_.size(); ++w) {
        for (size_t i = 0, edge = 0; i < count; from[i++] = static_cast<uint32_t>(edge)) {
            int64_t start;
            if (__builtin_sub_overflow(time(i), sizes_[w], &start)) continue;  // nothing is older
            while (edge < count && (closed_left_ ? time(edge) < start : time(edge) <= start)) ++edge;
        }
        size_t at = 0;
        RecordOutput& out = outs[w];
        for (size_t p = 0; p < plan_->parts(); ++p) {
            const Op& op = plan_->ops()[p];
            int64_t* columns[] = {out.words + at * out.rows, out.words + (at + 1) * out.rows};
            uint8_t* there = out.there + p * out.rows;
            if (op.words) {
                const int64_t* words = inputs.inputs[op.inputs[0]].words;
                slide_common(op, words, order, {from.data(), to.data(), count}, columns, there);
            } else {
                for (size_t i = 0; i < count; ++i) {
                    columns[0][order ? order[i] : i] = to[i] > from[i] ? to[i] - from[i] : 0;
                    there[order ? order[i] : i] = 1;
                }
            }
            at += op.outputs;
        }
    }
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
    size_t left() const { return bytes_.size(); }

   private:
    std::string_view bytes_;
};

}  // namespace

void Keyed::dump(std::string& bytes) const {
    for (const KeyWindow& window : windows_) {
        if (!window.live) continue;
        put(bytes, static_cast<uint32_t>(window.key.size()));
        bytes += window.key;
        put(bytes, window.rows.size());
        if (window.rows.size())
            bytes.append(reinterpret_cast<const char*>(window.rows.row(0, stride_)),
                         size_t{window.rows.size()} * stride_ * sizeof(int64_t));
        put(bytes, static_cast<uint32_t>(window.awaited.size()));
        for (auto& [time, tie] : window.awaited) put(bytes, time), put(bytes, tie);
    }
}

bool Keyed::load(std::string_view bytes) {
    Reader reader(bytes);
    while (reader.left()) {
        uint32_t size, rows, waiting;
        if (!reader.take(&size, sizeof size) || reader.left() < size) return false;
        std::string key(size, 0);
        size_t keys = live_keys();
        if (!reader.take(key.data(), size) || !reader.take(&rows, sizeof rows)) return false;
        if (reader.left() / (stride_ * sizeof(int64_t)) < rows) return false;
        KeyWindow& window = windows_[slot_of(key)];
        if (live_keys() == keys) return false;  // a key twice
        for (uint32_t i = 0; i < rows; ++i) {
            int64_t* row = window.rows.open(i, stride_);
            if (!reader.take(row, stride_ * sizeof(int64_t))) return false;
            const int64_t* last = i ? window.rows.row(i - 1, stride_) : nullptr;
            if (last && std::tie(last[Run::kTime], last[Run::kTie]) >= std::tie(row[Run::kTime], row[Run::kTie]))
                return false;
        }
        rows_ += rows;
        if (!reader.take(&waiting, sizeof waiting) || reader.left() / 16 < waiting) return false;
        for (uint32_t i = 0; i < waiting; ++i) {
            std::pair<int64_t, int64_t> pair;
            if (!reader.take(&pair.first, 8) || !reader.take(&pair.second, 8)) return false;
            window.awaited.push_back(pair);
        }
    }
    return true;
}

// --- answers -------------------------------------------------------------------------------------------

void Keyed::fold(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const {
    Plan::clear(record);
    fold_on(rows, from, to, record);
}

// A long stretch is some rows, whole blocks, and some rows.
void Keyed::fold_on(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const {
    uint64_t begin = (rows.dropped() + from + Run::kBlock - 1) / Run::kBlock, end = (rows.dropped() + to) / Run::kBlock;
    if (to - from < 4 * Run::kBlock || begin >= end) return fold_rows(rows, from, to, record);
    fold_rows(rows, from, static_cast<uint32_t>(begin * Run::kBlock - rows.dropped()), record);
    plan_->join(record, known_blocks(rows, begin, end), plan_->words(), end - begin);
    fold_rows(rows, static_cast<uint32_t>(end * Run::kBlock - rows.dropped()), to, record);
}

const int64_t* Keyed::known_blocks(const Run& rows, uint64_t from, uint64_t to) const {
    Run::Blocks& blocks = rows.blocks();
    uint32_t words = plan_->words();
    uint64_t oldest = (rows.dropped() + Run::kBlock - 1) / Run::kBlock;
    if (blocks.count == 0 || from < blocks.first || from > blocks.first + blocks.count) {
        blocks.first = from;
        blocks.count = 0;
    } else if (oldest > blocks.first + blocks.count / 2) {  // half of them are of rows that have gone
        uint64_t gone = std::min(oldest - blocks.first, blocks.count);
        blocks.records.erase(blocks.records.begin(), blocks.records.begin() + static_cast<ptrdiff_t>(gone * words));
        blocks.first += gone;
        blocks.count -= gone;
    }
    if (blocks.records.size() < (to - blocks.first) * words) blocks.records.resize((to - blocks.first) * words);
    for (; blocks.first + blocks.count < to; ++blocks.count) {
        int64_t* record = blocks.records.data() + blocks.count * words;
        uint32_t start = static_cast<uint32_t>((blocks.first + blocks.count) * Run::kBlock - rows.dropped());
        Plan::clear(record);
        fold_rows(rows, start, start + Run::kBlock, record);
    }
    return blocks.records.data() + (from - blocks.first) * words;
}

void Keyed::fold_rows(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const {
    while (from < to) {
        uint32_t start = from;
        const int64_t* row = rows.row(from, stride_);
        uint64_t nulls = Run::nulls_of(row);
        if (nulls) {
            plan_->fold_nulls(record, row + Run::kInputs, nulls);
            ++from;
            continue;
        }
        while (from < to && !Run::nulls_of(rows.row(from, stride_))) ++from;
        plan_->fold(record, {row + Run::kInputs, stride_}, from - start);
    }
}

int64_t Keyed::edge_of(int64_t time, size_t window) const {
    int64_t edge;
    return __builtin_sub_overflow(time, sizes_[window], &edge) ? INT64_MIN : edge;
}
uint32_t Keyed::from_of(const Run& rows, int64_t time, size_t window) const {
    int64_t edge = edge_of(time, window);
    if (closed_left_ || edge == INT64_MIN) return rows.find(edge, INT64_MIN, stride_);
    return rows.find(edge + 1, INT64_MIN, stride_);
}
uint32_t Keyed::to_of(const Run& rows, int64_t time) const {
    if (closed_left_) return rows.find(time, INT64_MIN, stride_);
    return time == INT64_MAX ? rows.size() : rows.find(time + 1, INT64_MIN, stride_);
}

class Keyed::Slider {
   public:
    Slider(const Keyed& keyed, const Run& rows) : keyed_(keyed), rows_(rows), words_(keyed.plan_->words()) {
        back_.resize(words_);
        Plan::clear(back_.data());
    }

    // The rows from `from` to `to`, neither of which ever goes back.
    void answer(uint32_t from, uint32_t to, int64_t* record) {
        if (from >= to_) restart(from);
        if (to > to_) {
            keyed_.fold_on(rows_, to_, to, back_.data());
            to_ = to;
        }
        if (from > front_to_) flip(from);
        const Plan& plan = *keyed_.plan_;
        if (from >= front_to_) {
            std::memcpy(record, back_.data(), words_ * sizeof(int64_t));
            return;
        }
        std::memcpy(record, front_.data() + size_t{from - front_from_} * words_, words_ * sizeof(int64_t));
        if (back_[kRows]) plan.join(record, back_.data(), 0, 1);
    }

   private:
    void restart(uint32_t from) {
        front_from_ = front_to_ = to_ = from;
        Plan::clear(back_.data());
    }
    // All rows so far become suffixes; what comes later starts anew.
    void flip(uint32_t from) {
        const Plan& plan = *keyed_.plan_;
        front_from_ = from;
        front_to_ = to_;
        front_.resize(size_t{front_to_ - front_from_} * words_);
        for (uint32_t i = front_to_; i-- > front_from_;) {
            int64_t* record = front_.data() + size_t{i - front_from_} * words_;
            Plan::clear(record);
            keyed_.fold_on(rows_, i, i + 1, record);
            if (i + 1 < front_to_) plan.join(record, record + words_, 0, 1);
        }
        Plan::clear(back_.data());
    }

    const Keyed& keyed_;
    const Run& rows_;
    uint32_t words_, front_from_ = 0, front_to_ = 0, to_ = 0;
    std::vector<int64_t> front_, back_;
};

// Anchors of one key, in time order. Few rows are folded anew for each; many are gone along.
void Keyed::answer_key(const Anchor* anchors, const uint32_t* order, size_t first, size_t last,
                       std::vector<RecordOutput>& outs) {
    constexpr size_t kFew = 24;
    const Run& rows = windows_[anchors[order[first]].slot].rows;
    std::vector<int64_t> record(plan_->words());
    // Going along costs about two combines a row; an answer by blocks as many as there are blocks, and some rows.
    size_t worth = 2 * size_t{rows.size()} / (rows.size() / Run::kBlock + 2 * Run::kBlock);
    for (size_t w = 0; w < sizes_.size(); ++w) {
        std::unique_ptr<Slider> slider;
        if (rows.size() > kFew && last - first > std::max<size_t>(1, worth))
            slider = std::make_unique<Slider>(*this, rows);
        for (size_t i = first; i < last; ++i) {
            int64_t time = anchors[order[i]].time;
            uint32_t from = from_of(rows, time, w), to = to_of(rows, time);
            int64_t* into = plan_->timed() ? record.data() : outs[w].slot(*plan_, i, plan_->words());
            if (slider)
                slider->answer(from, std::max(from, to), into);
            else
                fold(rows, from, to, into);
            if (plan_->timed()) plan_->store(into, {edge_of(time, w), time}, outs[w], order[i]);
        }
    }
}

void Keyed::answer(const std::vector<Anchor>& anchors, std::vector<RecordOutput>& outs) {
    std::vector<uint32_t> order = grouped(anchors.size(), [&](size_t i) { return anchors[i].slot; });
    for (RecordOutput& out : outs) out.places = order.data();
    for (size_t first = 0; first < order.size();) {
        size_t last = first + 1;
        while (last < order.size() && anchors[order[last]].slot == anchors[order[first]].slot) ++last;
        auto earlier = [&](uint32_t a, uint32_t b) { return anchors[a].time < anchors[b].time; };
        if (!std::is_sorted(order.begin() + first, order.begin() + last, earlier))
            std::stable_sort(order.begin() + first, order.begin() + last, earlier);
        answer_key(anchors.data(), order.data(), first, last, outs);
        first = last;
    }
    for (RecordOutput& out : outs) {
        out.flush();
        out.places = nullptr;
    }
}

std::vector<Anchor> Keyed::arrived(const int64_t* times, const uint8_t* status) const {
    std::vector<Anchor> anchors;
    for (size_t row = 0; row < slots_.size(); ++row)
        if (status[row] == inserted) anchors.push_back({slots_[row], times[row], 0, static_cast<int64_t>(row)});
    return anchors;
}

Anchor Keyed::anchor_of(uint32_t slot, const int64_t* row) const {
    return {slot, row[Run::kTime], row[Run::kTie], Run::seq_of(row)};
}

namespace {

void sort_by_arrival(std::vector<Anchor>& anchors) {
    std::sort(anchors.begin(), anchors.end(),
              [](const Anchor& a, const Anchor& b) { return std::tie(a.time, a.seq) < std::tie(b.time, b.seq); });
}

}  // namespace

std::vector<Anchor> Keyed::between(int64_t from, int64_t to) {
    std::vector<Anchor> anchors;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        const Run& rows = windows_[slot].rows;
        if (!rows.size() || rows.row(rows.size() - 1, stride_)[Run::kTime] < from) continue;
        for (uint32_t at = rows.find(from, INT64_MIN, stride_); at < rows.size(); ++at) {
            const int64_t* row = rows.row(at, stride_);
            if (row[Run::kTime] >= to) break;
            anchors.push_back(anchor_of(slot, row));
        }
    }
    sort_by_arrival(anchors);
    return anchors;
}

// An event at t changes the anchors of its key from t to t + the largest size.
std::vector<Anchor> Keyed::touched() {
    std::vector<Anchor> anchors;
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return std::tie(a.slot, a.time) < std::tie(b.slot, b.time); });
    for (size_t i = 0; i < changes_.size();) {
        uint32_t slot = changes_[i].slot;
        const Run& rows = windows_[slot].rows;
        uint32_t at = 0;
        for (; i < changes_.size() && changes_[i].slot == slot; ++i) {
            int64_t until;
            if (__builtin_add_overflow(changes_[i].time, largest_, &until)) until = INT64_MAX;
            at = std::max(at, rows.find(changes_[i].time, INT64_MIN, stride_));
            for (; at < rows.size() && rows.row(at, stride_)[Run::kTime] <= until; ++at) {
                anchors.push_back(anchor_of(slot, rows.row(at, stride_)));
            }
        }
    }
    changes_.clear();
    sort_by_arrival(anchors);
    return anchors;
}

std::vector<Anchor> Keyed::gone() { return std::exchange(gone_, {}); }

void Keyed::changed(const std::vector<Anchor>& anchors, const std::vector<RecordOutput>& outs, uint8_t* fresh) {
    std::vector<int64_t> shown;
    for (size_t i = 0; i < anchors.size(); ++i) {
        shown.clear();
        for (const RecordOutput& out : outs) out.row(*plan_, i, shown);
        int64_t mark = static_cast<int64_t>(hash64(shown.data(), shown.size() * sizeof(int64_t), 1) | 1);
        Run& rows = windows_[anchors[i].slot].rows;
        int64_t* row = rows.row(rows.find(anchors[i].time, anchors[i].tie, stride_), stride_);
        fresh[i] = row[Run::kMark] != mark;
        row[Run::kMark] = mark;
    }
}

}  // namespace sash
