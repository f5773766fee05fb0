// Many keys, each with a window of its own, and several window sizes over each.
//
// A key's rows lie in time order in one flat run (keyed_rows.hpp). Results are for anchors: the rows themselves, or the
// boundaries of a grid. What is late, final or due to be shown is decided above (sash/keyed.py); this holds rows, and
// answers for anchors.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arrow_keys.hpp"
#include "keyed_rows.hpp"
#include "record.hpp"

namespace sash {

// An event, or a boundary, for which there are results.
struct Anchor {
    uint32_t slot;
    int64_t time, tie, seq;
};

// What is asked of an engine beside its aggregates.
struct Frame {
    std::vector<int64_t> sizes;
    bool closed_left = false, remembers = false;
    bool named = false;                 // ids are bytes
    int64_t every = 0, offset = 0;      // boundaries; none: results are for the rows
    int64_t pane = 0, pane_offset = 0;  // what times are rounded down to; none: they are as they are
    bool merged = false;                // all rows of a pane are one record
    bool rounded = false;               // monoids see rounded times too
};

// How far a time is past the last point of a grid; the offset is from 0 to below the step.
inline int64_t past_on(int64_t time, int64_t step, int64_t offset) {
    int64_t past = time % step - offset;
    if (past < 0) past += step;
    return past < 0 ? past + step : past;
}

class Keyed {
   public:
    Keyed(std::shared_ptr<const Plan> plan, Frame frame);
    Keyed(const Keyed&) = delete;

    // --- keys (keyed.cpp) -------------------------------------------------------------------------------

    // Finds the keys of a batch, and the order in which rows of one key lie together.
    void begin(const KeyColumns* keys, size_t rows);
    size_t live_keys() const { return windows_.size() - free_.size(); }
    size_t live_rows() const { return rows_; }
    size_t live_bytes() const { return rows_ * shape_.stride * sizeof(int64_t) + live_keys() * sizeof(KeyWindow); }
    const std::string& key_of(uint32_t slot) const { return windows_[slot].key; }
    const std::vector<uint32_t>& batch_slots() const { return slots_; }

    // --- rows (keyed.cpp) -------------------------------------------------------------------------------

    enum Status : uint8_t { inserted, repeated, deleted, unmatched, awaited, too_late, withdrawn };
    // Takes the rows of the batch, those of one key in order of arrival. `ids` null: no ids; `deletes` null: all are
    // inserts; `late` rows are passed over.
    void apply(const int64_t* times, const int64_t* ids, const uint8_t* deletes, const uint8_t* late, int64_t seq,
               const Column& inputs, uint8_t* status);
    // Takes records of panes instead, as `panes` gave them, side by side.
    void join(const int64_t* times, const int64_t* records, const uint8_t* late, uint8_t* status);
    // Lets go of rows at or before a time, of deletes that wait for rows before `horizon`, and of keys with neither.
    void expire(int64_t bound, int64_t horizon);
    Names& names() { return *names_; }

    // All panes, and their keys by the first row of the batch that has them: what `join` takes elsewhere.
    void panes(std::vector<uint32_t>& slots, std::vector<int64_t>& times, std::vector<int64_t>& records) const;
    // All rows and keys as bytes, and back into an engine that is empty; false where the bytes are not such.
    void dump(std::string& bytes) const;
    bool load(std::string_view bytes);

    // --- anchors (keyed_anchors.cpp) --------------------------------------------------------------------

    std::vector<Anchor> arrived(const int64_t* times, const uint8_t* status) const;  // of this batch, in its order
    std::vector<Anchor> between(int64_t from, int64_t to);  // rows with from <= time < to, by time and arrival
    std::vector<Anchor> touched();                          // rows that may have changed since the last call
    std::vector<Anchor> gone();                             // rows that were deleted after they had been shown
    // Boundaries with from < b <= to whose largest window holds something, by key and time.
    std::vector<Anchor> boundaries(int64_t from, int64_t to) const;
    // Boundaries up to `until` that the batch at hand will change, by key and time; before it is applied.
    std::vector<Anchor> watch(const int64_t* times, const uint8_t* late, int64_t until) const;

    // The first row that is not before a time, or the first boundary after it that has something to show; and the last
    // time of a row, or of a delete that waits for one. False: there is none.
    bool pending(int64_t from, int64_t& time) const;
    bool newest(int64_t& time) const;

    enum Change : uint8_t { same, fresh, emptied };
    // What anchors show now, hashed; `extra` is what Python knows of them, or null. Nothing: an empty window.
    std::vector<int64_t> marks(const std::vector<Anchor>& anchors, const std::vector<RecordOutput>& outs,
                               const int64_t* extra) const;
    // Which rows show something new; remembers what they show now.
    void changed(const std::vector<Anchor>& anchors, const std::vector<int64_t>& marks, uint8_t* change);
    // All rows have been shown, nobody remembers as what.
    void mark_all();

    // --- answers (keyed_answers.cpp) --------------------------------------------------------------------

    const Plan& plan() const { return *plan_; }
    // Results for anchors, one RecordOutput for each window size.
    void answer(const std::vector<Anchor>& anchors, std::vector<RecordOutput>& outs);
    // The results of all rows of the batch, none of which is kept: for tables that are all there. False, and nothing is
    // done, where that takes more than the common ops, or where there are nulls.
    bool roll(const int64_t* times, const Column& inputs, std::vector<RecordOutput>& outs);
    // The rows in each anchor's windows, for those who fold them themselves: anchors in the order of key and time; for
    // each window and anchor from where to where, by position in `seqs`, the places in the stream of all those rows.
    struct Spans {
        std::vector<uint32_t> order;
        std::vector<int64_t> from, to, seqs, times;
    };
    Spans spans(const std::vector<Anchor>& anchors) const;

    // How many rows or anchors of the work at hand are done; another thread may look.
    size_t progress() const { return progress_->load(std::memory_order_relaxed); }

   private:
    struct KeyWindow {
        std::string key;
        Run rows;
        std::vector<std::pair<int64_t, int64_t>> awaited;  // deletes that came before their rows, sorted
        bool live = false;

        bool awaits(int64_t time, int64_t tie) const {
            return std::binary_search(awaited.begin(), awaited.end(), std::make_pair(time, tie));
        }
        void await(int64_t time, int64_t tie) {
            auto pair = std::make_pair(time, tie);
            awaited.insert(std::lower_bound(awaited.begin(), awaited.end(), pair), pair);
        }
    };
    struct Touch {
        uint32_t slot;
        int64_t time;
    };
    struct Late {
        int64_t time, tie;
        uint32_t row;
    };

    // One window size, going along the rows of a key: two stacks, of records.
    class Slider;

    // keys
    template <class SlotOf>
    std::vector<uint32_t> grouped(size_t count, SlotOf&& slot_of) const;
    uint32_t slot_of(const std::string& key);
    void rehash(size_t size);
    void free_slot(uint32_t slot);
    void forget_names();

    // rows
    void apply_key(const uint32_t* rows, size_t count, const int64_t* times, const int64_t* ids, const uint8_t* deletes,
                   const uint8_t* late, const Column& inputs, uint8_t* status);
    uint8_t insert(uint32_t slot, int64_t time, int64_t tie, const Column& inputs, uint32_t row, bool ids,
                   bool may_wait);
    void insert_late(uint32_t slot, const Column& inputs, uint8_t* status);
    void insert_in_pane(Run& rows, int64_t time, const Column& inputs, size_t row);
    void fill(int64_t* words, int64_t time, int64_t tie, const Column& inputs, uint32_t row) const;
    uint8_t remove(uint32_t slot, int64_t time, int64_t tie, const Column& inputs, size_t row, bool ids);
    int64_t* pane_at(Run& rows, int64_t time, bool& made);
    bool same_inputs(const int64_t* held, const Column& inputs, size_t row) const;
    void erase(uint32_t slot, uint32_t at);
    int64_t placed(int64_t time) const {
        int64_t floor;
        if (!frame_.pane) return time;
        bool below = __builtin_sub_overflow(time, past_on(time, frame_.pane, frame_.pane_offset), &floor);
        return below ? INT64_MIN : floor;
    }

    // anchors
    Anchor anchor_of(uint32_t slot, const int64_t* row) const;
    bool next_boundary(int64_t time, int64_t& boundary) const;  // the first after a time; false: there is none
    bool is_empty(const Anchor& boundary) const;
    bool first_boundary(const Run& rows, int64_t from, int64_t& boundary) const;

    // answers
    bool rolls(const Column& inputs) const;
    void roll_key(const int64_t* times, const uint32_t* order, size_t count, const Column& inputs,
                  std::vector<RecordOutput>& outs) const;
    std::vector<uint32_t> by_key_and_time(const std::vector<Anchor>& anchors) const;
    void answer_key(const Anchor* anchors, const uint32_t* order, size_t first, size_t last,
                    std::vector<RecordOutput>& outs);
    bool goes_along(const Run& rows, const Anchor& first, const Anchor& last, size_t anchors, size_t window,
                    uint32_t& last_from) const;
    int64_t edge_of(int64_t time, size_t window) const;
    int64_t first_in(int64_t time, size_t window) const;  // the first time in its window
    uint32_t from_of(const Run& rows, uint32_t hint, int64_t time, size_t window) const;
    uint32_t to_of(const Run& rows, uint32_t hint, int64_t time) const;
    void fold(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const;
    void fold_on(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const;
    void fold_rows(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const;
    void fold_level(const Run& rows, size_t level, uint64_t from, uint64_t to, int64_t* record) const;
    const int64_t* known(const Run& rows, size_t level, uint64_t from, uint64_t to) const;
    void fold_block(const Run& rows, size_t level, uint64_t block, int64_t* record) const;

    std::shared_ptr<const Plan> plan_;
    Frame frame_;
    RowShape shape_;
    int64_t largest_ = 0;
    std::unique_ptr<Names> names_;
    std::unique_ptr<std::atomic<size_t>> progress_;

    std::vector<KeyWindow> windows_;
    std::vector<uint32_t> table_;  // of slots + 1, by the hash of their keys
    std::vector<uint32_t> free_;
    size_t rows_ = 0;
    std::vector<uint32_t> slots_, order_;  // of the batch at work
    std::vector<Late> late_;               // rows of one key that go far back
    std::vector<int64_t> scratch_;
    int64_t batch_seq_ = 0;
    uint8_t* batch_status_ = nullptr;
    std::vector<Touch> touches_;
    std::vector<Anchor> gone_;
};

}  // namespace sash
