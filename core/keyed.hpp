// Many keys, each with a window of its own, and several window sizes over each.
//
// A key's rows lie in time order in one flat run. A row's time is (time, tie): ties are the rows' ids where they have any, otherwise the order of arrival. What is late, final or due to
// be shown is decided above (sash/keyed.py); this holds rows, and answers for anchors.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrow_keys.hpp"
#include "record.hpp"

namespace sash {

// Rows by (time, tie) for one key. A row is its header and then its inputs.
class Run {
   public:
    static constexpr uint32_t kTime = 0, kTie = 1, kSeq = 2, kMark = 3, kInputs = 4;
    static constexpr uint64_t kNullBits = 16;  // of kSeq: its lowest bits say which inputs are null

    ~Run() { std::free(words_); }
    Run() = default;
    Run(Run&& other) noexcept { *this = std::move(other); }
    Run& operator=(Run&& other) noexcept {
        std::swap(words_, other.words_);
        std::swap(size_, other.size_);
        std::swap(room_, other.room_);
        std::swap(dropped_, other.dropped_);
        std::swap(blocks_, other.blocks_);
        return *this;
    }

    static int64_t seq_of(const int64_t* row) {
        return static_cast<int64_t>(static_cast<uint64_t>(row[kSeq]) >> kNullBits);
    }
    static uint64_t nulls_of(const int64_t* row) {
        return static_cast<uint64_t>(row[kSeq]) & ((uint64_t{1} << kNullBits) - 1);
    }

    uint32_t size() const { return size_; }
    int64_t* row(uint32_t i, uint32_t stride) { return words_ + size_t{i} * stride; }
    const int64_t* row(uint32_t i, uint32_t stride) const { return words_ + size_t{i} * stride; }

    // The first row that is not before (time, tie).
    uint32_t find(int64_t time, int64_t tie, uint32_t stride) const {
        auto before = [&](const int64_t* at) { return at[kTime] < time || (at[kTime] == time && at[kTie] < tie); };
        if (size_ && before(row(size_ - 1, stride))) return size_;  // what comes in order comes last
        uint32_t low = 0, high = size_;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (before(row(middle, stride)))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    int64_t* open(uint32_t at, uint32_t stride);  // a new row there, not filled in
    void close(uint32_t from, uint32_t to, uint32_t stride);

    // Aggregates of whole blocks of rows, for windows that are long. Blocks are counted from the first row there ever
    // was, so that rows that leave at the old end move nothing.
    static constexpr uint32_t kBlock = 64;
    struct Blocks {
        std::vector<int64_t> records;
        uint64_t first = 0, count = 0;  // those that are known
    };
    uint64_t dropped() const { return dropped_; }
    Blocks& blocks() const {
        if (!blocks_) blocks_ = std::make_unique<Blocks>();
        return *blocks_;
    }

   private:
    void forget_from(uint32_t at) {
        if (!blocks_) return;
        uint64_t block = (dropped_ + at) / kBlock;
        blocks_->count = block <= blocks_->first ? 0 : std::min(blocks_->count, block - blocks_->first);
    }

    int64_t* words_ = nullptr;
    uint32_t size_ = 0, room_ = 0;
    uint64_t dropped_ = 0;
    mutable std::unique_ptr<Blocks> blocks_;
};

struct Anchor {
    uint32_t slot;
    int64_t time, tie, seq;
};

class Keyed {
   public:
    Keyed(std::shared_ptr<const Plan> plan, std::vector<int64_t> sizes, bool closed_left, bool remembers);
    Keyed(const Keyed&) = delete;
    Keyed(Keyed&&) = default;

    // --- keys -------------------------------------------------------------------------------------------

    // Finds the keys of a batch, and the order in which rows of one key lie together.
    void begin(const KeyColumns* keys, size_t rows);
    size_t live_keys() const { return windows_.size() - free_.size(); }
    size_t live_rows() const { return rows_; }

    // --- rows -------------------------------------------------------------------------------------------

    enum Status : uint8_t { inserted, repeated, deleted, unmatched, awaited, too_late, withdrawn };
    // Takes the rows of the batch, those of one key in order of arrival. `ids` null: no ids; `deletes` null: all are
    // inserts; `late` rows are passed over.
    void apply(const int64_t* times, const int64_t* ids, const uint8_t* deletes, const uint8_t* late, int64_t seq,
               const Column& inputs, uint8_t* status);
    // The results of all rows of the batch, none of which is kept: for tables that are all there. False, and nothing is
    // done, where that takes more than the common ops, or where there are nulls.
    bool roll(const int64_t* times, const Column& inputs, std::vector<RecordOutput>& outs);
    // Lets go of rows at or before a time, of deletes that wait for rows before `horizon`, and of keys with neither.
    void expire(int64_t bound, int64_t horizon);

    // All rows and keys as bytes, and back into an engine that is empty; false where the bytes are not such.
    void dump(std::string& bytes) const;
    bool load(std::string_view bytes);

    // --- answers ----------------------------------------------------------------------------------------

    const Plan& plan() const { return *plan_; }
    // Results for anchors, one RecordOutput for each window size.
    void answer(const std::vector<Anchor>& anchors, std::vector<RecordOutput>& outs);
    std::vector<Anchor> arrived(const int64_t* times, const uint8_t* status) const;  // of this batch, in its order
    std::vector<Anchor> between(int64_t from, int64_t to);  // anchors with from <= time < to, by time and arrival
    std::vector<Anchor> touched();                          // anchors that may have changed since the last call
    std::vector<Anchor> gone();                             // rows that were deleted after they had been shown
    // Which of these anchors show something new; remembers what they show now.
    void changed(const std::vector<Anchor>& anchors, const std::vector<RecordOutput>& outs, uint8_t* fresh);

   private:
    struct KeyWindow {
        std::string key;
        Run rows;
        std::vector<std::pair<int64_t, int64_t>> awaited;  // deletes that came before their rows
        bool live = false;
    };
    struct Change {
        uint32_t slot;
        int64_t time;
    };

    // One window size, going along the rows of a key: two stacks, of records.
    class Slider;

    template <class SlotOf>
    std::vector<uint32_t> grouped(size_t count, SlotOf&& slot_of) const;
    Anchor anchor_of(uint32_t slot, const int64_t* row) const;
    bool rolls(const Column& inputs) const;
    void roll_key(const int64_t* times, const uint32_t* order, size_t count, const Column& inputs,
                  std::vector<RecordOutput>& outs) const;
    uint32_t slot_of(const std::string& key);
    void answer_key(const Anchor* anchors, const uint32_t* order, size_t first, size_t last,
                    std::vector<RecordOutput>& outs);
    uint32_t from_of(const Run& rows, int64_t time, size_t window) const;
    uint32_t to_of(const Run& rows, int64_t time) const;
    int64_t edge_of(int64_t time, size_t window) const;
    void rehash(size_t size);
    void free_slot(uint32_t slot);
    uint8_t insert(KeyWindow& window, int64_t time, int64_t tie, int64_t seq, const Column& inputs, size_t row,
                   bool ids);
    uint8_t remove(uint32_t slot, int64_t time, int64_t tie, const Column& inputs, size_t row, bool ids);
    void fold(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const;
    void fold_on(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const;
    void fold_rows(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const;
    const int64_t* known_blocks(const Run& rows, uint64_t from, uint64_t to) const;
    bool same_inputs(const int64_t* held, const Column& inputs, size_t row) const;
    void erase(uint32_t slot, uint32_t at);

    std::shared_ptr<const Plan> plan_;
    std::vector<int64_t> sizes_;
    int64_t largest_ = 0;
    bool closed_left_, remembers_;
    uint32_t stride_;

    std::vector<KeyWindow> windows_;
    std::vector<uint32_t> table_;  // of slots + 1, by the hash of their keys
    std::vector<uint32_t> free_;
    size_t rows_ = 0;
    std::vector<uint32_t> slots_, order_;  // of the batch at work
    int64_t batch_seq_ = 0;
    uint8_t* batch_status_ = nullptr;
    std::vector<Change> changes_;
    std::vector<Anchor> gone_;
};

}  // namespace sash
