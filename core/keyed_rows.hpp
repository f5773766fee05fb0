// The rows of one key, flat and in order of (time, tie), and aggregates of blocks of them.
//
// Ties are the rows' ids where they have any, otherwise the order of arrival. Ids that are bytes are numbers here, which
// `Names` puts in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sash {

// Ids that are bytes: each has a number, and numbers are ordered as their bytes are.
class Names {
   public:
    int64_t number_of(std::string_view name) {
        auto found = numbers_.find(name);
        if (found != numbers_.end()) return found->second;
        names_.emplace_back(name);
        int64_t number = static_cast<int64_t>(names_.size()) - 1;
        numbers_.emplace(names_.back(), number);
        return number;
    }
    const std::string& name_of(int64_t number) const { return names_[static_cast<size_t>(number)]; }
    bool knows(int64_t number) const { return number >= 0 && static_cast<size_t>(number) < names_.size(); }
    size_t size() const { return names_.size(); }
    bool less(int64_t a, int64_t b) const {
        if (a == b || b == INT64_MIN) return false;
        return a == INT64_MIN || name_of(a) < name_of(b);
    }

   private:
    std::deque<std::string> names_;  // which never move, so that the map can lean on them
    std::unordered_map<std::string_view, int64_t> numbers_;
};

// What all rows of an engine have in common.
struct RowShape {
    uint32_t stride = 0, inputs_at = 0;
    uint32_t block = 64;           // rows of the smallest block
    const Names* names = nullptr;  // of the ties; null: they are their own order

    bool tie_less(int64_t a, int64_t b) const { return names ? names->less(a, b) : a < b; }
    bool wide_nulls() const { return inputs_at > 4; }
};

// A row is its header and then its inputs, or its pane's record.
class Run {
   public:
    static constexpr uint32_t kTime = 0, kTie = 1, kSeq = 2, kMark = 3, kNulls = 4;  // the last of them where it must
    static constexpr uint64_t kNullBits = 16;  // of kSeq: its lowest bits say which inputs are null

    ~Run() { std::free(words_); }
    Run() = default;
    Run(Run&& other) noexcept { *this = std::move(other); }
    Run& operator=(Run&& other) noexcept {
        std::swap(words_, other.words_);
        std::swap(head_, other.head_);
        std::swap(size_, other.size_);
        std::swap(room_, other.room_);
        std::swap(dropped_, other.dropped_);
        std::swap(levels_, other.levels_);
        return *this;
    }

    static int64_t seq_of(const int64_t* row) {
        return static_cast<int64_t>(static_cast<uint64_t>(row[kSeq]) >> kNullBits);
    }
    static uint64_t nulls_of(const int64_t* row, const RowShape& shape) {
        if (shape.wide_nulls()) return static_cast<uint64_t>(row[kNulls]);
        return static_cast<uint64_t>(row[kSeq]) & ((uint64_t{1} << kNullBits) - 1);
    }
    static void set_header(int64_t* row, int64_t time, int64_t tie, int64_t seq, uint64_t nulls,
                           const RowShape& shape) {
        row[kTime] = time;
        row[kTie] = tie;
        row[kSeq] = static_cast<int64_t>(static_cast<uint64_t>(seq) << kNullBits | (shape.wide_nulls() ? 0 : nulls));
        row[kMark] = 0;
        if (shape.wide_nulls()) row[kNulls] = static_cast<int64_t>(nulls);
    }

    uint32_t size() const { return size_; }
    int64_t* row(uint32_t i, const RowShape& shape) { return words_ + size_t{head_ + i} * shape.stride; }
    const int64_t* row(uint32_t i, const RowShape& shape) const { return words_ + size_t{head_ + i} * shape.stride; }
    int64_t time(uint32_t i, const RowShape& shape) const { return row(i, shape)[kTime]; }

    // The first row that is not before (time, tie).
    uint32_t find(int64_t time, int64_t tie, const RowShape& shape) const {
        auto before = [&](const int64_t* at) {
            return at[kTime] < time || (at[kTime] == time && shape.tie_less(at[kTie], tie));
        };
        if (size_ && before(row(size_ - 1, shape))) return size_;  // what comes in order comes last
        uint32_t low = 0, high = size_;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (before(row(middle, shape)))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    uint32_t find(int64_t time, const RowShape& shape) const { return find(time, INT64_MIN, shape); }
    // The same, where it is known to be `at` or not far behind it.
    uint32_t find_from(uint32_t at, int64_t time, const RowShape& shape) const;

    int64_t* open(uint32_t at, const RowShape& shape);  // a new row there, not filled in
    void close(uint32_t from, uint32_t to, const RowShape& shape);
    void grow(uint32_t more, const RowShape& shape);  // so many new rows at the end, not filled in

    // Aggregates of whole blocks of rows, and of blocks of those, for windows that are long. Blocks are counted from the
    // first row there ever was, so that rows that leave at the old end move nothing.
    static constexpr uint32_t kFan = 16;
    struct Level {
        std::vector<int64_t> records;
        uint64_t first = 0, count = 0;  // those that are known
    };
    uint64_t dropped() const { return dropped_; }
    Level& level(size_t i) const {
        if (!levels_) levels_ = std::make_unique<std::vector<Level>>();
        if (levels_->size() <= i) levels_->resize(i + 1);
        return (*levels_)[i];
    }
    // A row there, or where it would be, is no longer what blocks have seen.
    void forget_from(uint32_t at, const RowShape& shape);

   private:
    void make_room(uint32_t more, const RowShape& shape);

    int64_t* words_ = nullptr;
    uint32_t head_ = 0, size_ = 0, room_ = 0;  // rows before the first, rows, and what there is memory for
    uint64_t dropped_ = 0;
    mutable std::unique_ptr<std::vector<Level>> levels_;
};

}  // namespace sash
