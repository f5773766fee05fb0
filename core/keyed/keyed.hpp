// Many keys, each with a window of its own, and several window sizes over each.
//
// A key's rows are in a finger tree (keyed/rows.hpp), the one that `fiba` uses too. Results are for anchors: the rows
// themselves, or the boundaries of a grid. What is late, final or due to be shown is decided in Python (sash/keyed); this
// stores rows and answers for anchors. No step costs what is held: a row costs O(log d), and keys for which nothing is due
// are not looked at.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keyed/agenda.hpp"
#include "keyed/arrow_keys.hpp"
#include "keyed/frame.hpp"
#include "keyed/open_sessions.hpp"
#include "keyed/rows.hpp"

namespace sash {

// An event, or a boundary, for which there are results.
struct Anchor {
    uint32_t slot;
    bool is_row;  // not a boundary, or a question
    int64_t time, tie, seq;
};

// The rows of a batch by key: each row's key, and the order in which rows of one key lie together.
struct KeyBatch {
    std::vector<uint32_t> slots, order;
    int64_t seq = 0;          // of its first row, in the stream
    uint64_t generation = 0;  // of the keys
};

// The rows in each anchor's windows, for those who fold them themselves: anchors in the order of key and time; for each
// window and anchor from where to where, by position in `seqs`, the places in the stream of all those rows.
struct Spans {
    std::vector<uint32_t> order;
    std::vector<int64_t> from, to, seqs, times;
};

// The anchors of a question, and what some of them showed before a batch.
struct Anchors {
    std::vector<Anchor> items;
    std::vector<int64_t> marks;  // of the first ones
    uint64_t generation = 0;
    std::shared_ptr<const Spans> spans;  // null: nobody asked for them
};

// A row that comes alone.
struct OneRow {
    int64_t time, seq;
    const int64_t* id;  // null: there are no ids
    bool may_delete, deletes, late;
    int64_t identity;
};

class Keyed {
   public:
    Keyed(std::shared_ptr<const Plan> plan, Frame frame);
    Keyed(const Keyed&) = delete;
    ~Keyed();

    // --- keys (keyed/keyed.cpp) -------------------------------------------------------------------------------

    KeyBatch batch_of(const KeyColumns* keys, size_t rows, int64_t seq);
    size_t live_keys() const { return windows_.size() - free_.size(); }
    size_t live_rows() const { return rows_; }
    size_t live_bytes() const;  // all that is allocated, with what an allocation costs
    const std::string& key_of(uint32_t slot) const { return windows_[slot].key; }
    // The different keys of anchors, and which of them each anchor has.
    std::vector<uint32_t> keys_of(const std::vector<Anchor>& anchors, std::vector<int64_t>& places);
    // Batches and anchors name keys by number, and numbers are used again when a key has gone. Throws where one has.
    void require_current(uint64_t generation) const;

    // --- rows (keyed/keyed.cpp) -------------------------------------------------------------------------------

    enum Status : uint8_t { inserted, repeated, deleted, unmatched, awaited, too_late, withdrawn };
    // Takes the rows of a batch, those of one key in order of arrival, but deletes last where there are no ids: what a
    // batch deletes may be in it, whatever their order. `ids` null: no ids; `deletes` null: all are inserts; `late` rows
    // are skipped; `identities` where rows carry them.
    void apply(const KeyBatch& batch, const int64_t* times, const int64_t* ids, const uint8_t* deletes,
               const uint8_t* late, const int64_t* identities, const Column& inputs, uint8_t* status);
    // Takes records of panes instead, as `panes` returned them, side by side.
    void join(const KeyBatch& batch, const int64_t* times, const int64_t* records, const uint8_t* late,
              uint8_t* status);
    // Drops rows at or before a time, deletes that wait for rows before `horizon`, and keys with neither. Windows that
    // count keep the last rows before the horizon, or their aggregate (keyed/retention.cpp).
    void expire(int64_t bound, int64_t horizon);
    // What has expired of each key, where a window is unbounded, its times and record in `words`; and back.
    Anchors expired(std::vector<int64_t>& words) const;
    bool load_expired(const KeyBatch& batch, const int64_t* words);
    size_t expired_words() const { return before_words(); }
    // Drops all rows at or before a time, as if they had never come; costs O(keys).
    void drop(int64_t bound);
    const Frame& frame() const { return frame_; }
    Names& names() { return *names_; }
    bool identified() const { return frame_.identified; }

    // All panes, and the numbers of their keys: what `join` takes elsewhere.
    void panes(std::vector<uint32_t>& slots, std::vector<int64_t>& times, std::vector<int64_t>& records);

    // --- bytes, proof (keyed/bytes.cpp) -----------------------------------------------------------------

    // All rows and keys as bytes.
    void dump(std::string& bytes);
    // Back into an engine that is empty; false where the bytes are not such. Nothing is believed of them: keys must have
    // values of these widths, places in the stream must come before `next`.
    bool load(std::string_view bytes, const std::vector<uint32_t>& widths, int64_t next, bool ids);
    // The places in the stream and the times of all rows, and the keys of all that is held, in the same order.
    void held(std::vector<int64_t>& seqs, std::vector<int64_t>& times, std::vector<const std::string*>& keys) const;
    // Throws on the first thing that is not as it must be: order, occupancy, counts, every summary, what is due when.
    void check();
    // The rows of a key as a tree of plain data, for pictures and tests; None where the key has none.
    Ref nodes(const std::string& key);
    // How many rows and records were combined, and how many of those combines made or changed summaries.
    uint64_t combines() const { return algebra_.combines; }
    uint64_t repairs() const { return algebra_.repairs; }

    // --- anchors (keyed/anchors.cpp) --------------------------------------------------------------------

    // The rows of a batch that were inserted, in its order; `ids` null: there are none.
    Anchors arrived(const KeyBatch& batch, const int64_t* times, const int64_t* ids, const uint8_t* status) const;
    Anchors between(int64_t from, int64_t to);  // rows with from <= time <= to, by time and arrival
    Anchors touched(int64_t from);              // rows from a time on that may have changed since the last call
    // Whatever lies from these anchors up to a time each may have changed, by what another engine was told.
    void touch(const std::vector<Anchor>& anchors, const int64_t* until);
    // The last times of anchors that may see the rows of a batch, or may have seen them before it.
    std::vector<int64_t> seen_until(const KeyBatch& batch, const int64_t* times) const;
    // Rows that were deleted after they had been shown. Without ids, one of those that had the same key and time, and
    // none where such a row remains: it is among the touched ones, as if it had changed.
    std::vector<int64_t> gone();
    // Those that were watched, then boundaries with from < b <= to whose largest window holds something, by key and time.
    Anchors boundaries(int64_t from, int64_t to, const Anchors* watched);
    // Boundaries up to `until` that a batch will change, by key and time, and what they show before it is applied.
    Anchors watch(const KeyBatch& batch, const int64_t* times, const uint8_t* late, int64_t until);

    // The first row that is not before a time, or the first boundary after it that has something to show. False: none.
    bool pending(int64_t from, int64_t& time);
    // A time before which there are at most so many of the rows with from <= time < to; INT64_MAX: there are no more of
    // them. Costs about their number and that of the keys.
    int64_t nth_time(int64_t from, int64_t to, size_t count);
    // The last time of all rows that were held, and of deletes that waited, since there were none. False: there are none.
    bool newest(int64_t& time) const;

    enum Change : uint8_t { same, fresh, emptied, revised };
    // How anchors have changed, whose results are in `outs`: boundaries since they were watched, rows since they were
    // last asked about. `extra` is a hash of what Python found for each anchor, or null.
    std::vector<uint8_t> changed(const Anchors& anchors, const std::vector<RecordOutput>& outs, const int64_t* extra);
    // What anchors show, hashed; 0: an empty window of a boundary.
    std::vector<int64_t> marks_of(const std::vector<Anchor>& anchors, const std::vector<RecordOutput>& outs,
                                  const int64_t* extra) const;

    // --- answers (keyed/answers.cpp) --------------------------------------------------------------------

    const Plan& plan() const { return *plan_; }
    // Results for anchors, one RecordOutput for each window size.
    void answer(const std::vector<Anchor>& anchors, std::vector<RecordOutput>& outs);
    Spans spans(const std::vector<Anchor>& anchors);
    // The results of all rows of a batch, or of questions about it, none of which is kept: for tables that are complete.
    // It sorts the batch. False, and nothing is done, where that would take too much memory.
    bool roll(KeyBatch& batch, const int64_t* times, const Column& inputs, const Anchors* questions,
              std::vector<RecordOutput>& outs);

    // --- questions (keyed/questions.cpp) ----------------------------------------------------------------

    // Anchors that are no rows: instants of keys, of which some may not be there. No key is made.
    Anchors asked(const KeyColumns* keys, const int64_t* times, size_t count);
    // Results of the rows with from <= time <= to of each anchor's key. `span` is what results that depend on times see.
    void answer_range(const std::vector<Anchor>& anchors, int64_t from, int64_t to, const Span& span,
                      RecordOutput& out);
    Spans range_spans(const std::vector<Anchor>& anchors, int64_t from, int64_t to) const;

    // --- sessions (keyed/sessions.cpp, keyed/session_tables.cpp) ------------------------------------------

    // Sessions that end at a time or before, by key and start; they are asked for once.
    Anchors closing(int64_t until);
    Anchors open_sessions();  // all of them
    // Those that a batch will change, and what they show before it is applied; then those and what has become of them.
    Anchors watch_sessions(const KeyBatch& batch, const int64_t* times, const uint8_t* late);
    Anchors changed_sessions(const KeyBatch& batch, const int64_t* times, const uint8_t* late, const Anchors& watched);
    // What the last expiry has folded, with the records; the same of another engine, put in place of what is there.
    Anchors folded(std::vector<int64_t>& records) const;
    void unfold(const KeyBatch& batch, const int64_t* starts, const int64_t* lasts, const int64_t* records);
    // Drops rows at or before a time that are known to be folded.
    void drop_folded(int64_t bound) {
        start_expiring();
        expire_sessions(bound, false);
    }
    // The sessions of a table that is complete, and their results; the first call sorts the batch.
    Anchors sessions_in(KeyBatch& batch, const int64_t* times) const;
    void answer_table(const KeyBatch& batch, const Anchors& sessions, const int64_t* times, const Column& inputs,
                      RecordOutput& out);
    size_t open_count() const { return open_.count(); }

    // --- one event, one key (keyed/one_event.cpp) --------------------------------------------------------

    static constexpr uint32_t kNoSlot = UINT32_MAX;
    uint32_t slot_of(const std::string& key) { return slot_of(key, hash_of(key)); }  // made where there is none
    uint32_t find_slot(const std::string& key) const;                                // kNoSlot where there is none
    // Takes the one row of a batch, as `apply` does.
    uint8_t apply_one(uint32_t slot, const OneRow& row, const Column& inputs);
    // Takes back a row that has just been inserted, if it was, and its key where it has no other.
    void take_back(uint32_t slot, const OneRow& row);
    // Results of one anchor, one RecordOutput of one row for each window; kNoSlot: those of a key without rows.
    void answer_one(const Anchor& anchor, std::vector<RecordOutput>& outs);

    // How many rows or anchors of the current work are done; another thread may look.
    size_t progress() const { return progress_->load(std::memory_order_relaxed); }

   private:
    // One cache line: a batch has most of its keys once, and they are all over memory.
    struct alignas(64) KeyWindow {
        std::string key;
        tree::SmallSpines rows;
        uint32_t group = 0, epoch = 0;  // of the last batch or answer that had this key
        uint32_t hash = 0;              // of the key
        bool live = false;
    };
    static_assert(sizeof(KeyWindow) == 64);
    struct Touch {  // rows of a key whose results may have changed: with time <= their time <= until, and some after
        uint32_t slot;
        int64_t time, until, tie;
    };
    struct Gone {
        uint32_t slot;
        int64_t time, seq;
        bool named;  // by an id
    };
    struct Late {
        RowPlace place;
        uint32_t row;
    };
    class Loading;
    struct LateRows;
    class LateScratch;
    struct RowSpan {
        size_t from, to;       // ranks of rows
        tree::WordLeaf* leaf;  // where the first of them is
        uint32_t at;
        bool before;  // has it what expired too?
    };
    // Where a window stops: before a place, or with the row that is there; or behind all rows.
    struct Stop {
        RowPlace place;
        bool with, all;
    };
    // The rows that a window which counts has, as far as gaps and its size tell.
    struct Counted {
        size_t from;
        bool before;
    };
    static constexpr int64_t kOtherMark = 2;  // which no hash is

    // keys
    template <class SlotOf>
    void group(size_t count, SlotOf&& slot_of, std::vector<uint32_t>& order);
    void find_slots(const KeyColumns& keys, std::vector<uint32_t>& slots);
    uint32_t slot_of(const std::string& key, uint32_t hash);  // made where there is none
    static uint32_t hash_of(const std::string& key);
    size_t home_of(uint32_t slot) const { return windows_[slot].hash & (table_.size() - 1); }
    size_t place_of(const std::string& key, uint32_t hash) const;
    void rehash(size_t size);
    void free_slot(uint32_t slot);
    void free_if_empty(uint32_t slot);
    void forget_names();

    // Keys are all over memory: what the next ones need is fetched while this one is worked on. First the key itself, then
    // the head of its leaf, then the rows that will be read.
    enum Needed { first_row, last_row, all_rows };
    template <class SlotAt>
    SASH_FETCH void prefetch(size_t i, size_t count, SlotAt&& slot_at, Needed needed) const {
        constexpr size_t kKey = 24, kHead = 16, kRows = 8;
        if (i + kKey < count) __builtin_prefetch(&windows_[slot_at(i + kKey)]);
        if (i + kHead < count) __builtin_prefetch(windows_[slot_at(i + kHead)].rows.memory());
        if (i + kRows < count) prefetch_rows(windows_[slot_at(i + kRows)].rows, needed);
    }
    SASH_FETCH void prefetch_rows(const tree::SmallSpines& rows, Needed needed) const {
        constexpr size_t kMost = 1024;
        if (rows.height() || !rows.size) return;
        const auto* leaf = static_cast<const tree::WordLeaf*>(rows.root());
        uint32_t from = needed == last_row ? leaf->end - 1 : leaf->begin;
        // Behind the last row is where the next one is written.
        uint32_t to = needed == all_rows ? leaf->end : from + 2;
        const char* at = reinterpret_cast<const char*>(nodes_.row(leaf, from));
        const char* end = std::min(reinterpret_cast<const char*>(nodes_.row(leaf, to)), at + kMost);
        for (at -= reinterpret_cast<uintptr_t>(at) % 64; at < end; at += 64) __builtin_prefetch(at);
    }

    // trees
    RowTree tree_of(uint32_t slot) { return RowTree(nodes_, windows_[slot].rows, algebra_); }
    RowTree tree_of(uint32_t slot) const { return const_cast<Keyed*>(this)->tree_of(slot); }
    RowSummaries summaries_of(uint32_t slot) { return RowSummaries(nodes_, windows_[slot].rows, algebra_); }
    RowTree awaited_of(uint32_t slot) { return places_of(slot, awaited_spines_); }
    RowTree breaks_of(uint32_t slot) { return places_of(slot, break_spines_); }
    RowTree places_of(uint32_t slot, std::vector<tree::SmallSpines>& spines);  // trees of places alone
    size_t awaited_by(uint32_t slot) const { return slot < awaited_spines_.size() ? awaited_spines_[slot].size : 0; }
    size_t breaks_in(uint32_t slot) const { return slot < break_spines_.size() ? break_spines_[slot].size : 0; }
    bool add_place(RowTree tree, RowPlace place);  // false: it is there already
    const int64_t* row_at(const RowCursor& cursor) const { return nodes_.row(cursor.leaf(), cursor.position()); }

    // proof, plain data
    void check_rows(uint32_t slot);
    Ref node_below(const tree::SmallSpines& spines, tree::Node* node, uint32_t level, const Ref& aggregate);

    // rows
    void apply_key(uint32_t slot, const uint32_t* rows, size_t count, const int64_t* times, const int64_t* ids,
                   const uint8_t* deletes, const uint8_t* late, const Column& inputs, uint8_t* status);
    uint8_t insert(uint32_t slot, RowPlace place, const Column& inputs, uint32_t row, bool ids, bool may_wait);
    void insert_one(RowTree& tree, RowTree::Path& path, const Late& late, const Column& inputs);
    void insert_late(uint32_t slot, const Column& inputs, uint8_t* status, bool ids);
    void insert_in_pane(uint32_t slot, int64_t time, const Column& inputs, size_t row);
    void fill(int64_t* words, RowPlace place, const Column& inputs, uint32_t row) const;
    void entered(uint32_t slot, RowPlace place, bool may_be_oldest = true);
    uint8_t remove(uint32_t slot, RowPlace place, const Column& inputs, size_t row, bool ids);
    bool find_same(RowTree& tree, RowPlace& place, const Column& inputs, size_t row);
    bool awaits(uint32_t slot, RowPlace place);
    bool await(uint32_t slot, RowPlace place);  // false: it waits already
    int64_t* pane_at(uint32_t slot, int64_t time, bool& made);
    bool same_inputs(const int64_t* held, const Column& inputs, size_t row) const;
    void erase(uint32_t slot, RowTree& tree, const RowTree::Path& path, bool ids);
    void show_again(RowTree& tree, int64_t time);
    int64_t placed(int64_t time) const {
        int64_t floor;
        if (!frame_.pane) return time;
        bool below = __builtin_sub_overflow(time, past_on(time, frame_.pane, frame_.pane_offset), &floor);
        return below ? INT64_MIN : floor;
    }

    // sessions
    static constexpr size_t kRowsAtOnce = 1024;
    static Anchor session_at(uint32_t slot, int64_t start, int64_t last);  // as an anchor
    bool first_session(uint32_t slot, Anchor& session);
    bool next_session(Anchor& session);
    int64_t sessions_near(uint32_t slot, int64_t time, std::vector<Anchor>& sessions);
    std::vector<Anchor> sessions_around(const KeyBatch& batch, const int64_t* times, const uint8_t* late);
    bool next_closing(uint32_t slot, int64_t& time);
    void lower_closing(uint32_t slot);
    static bool is_swallowed(const Anchor& session);
    void answer_sessions(const std::vector<Anchor>& sessions, RecordOutput& out);
    void fold_session(const Anchor& session, RowTotal& total);
    void fold_leaf_of(const tree::WordLeaf* leaf, const Anchor& session, RowTotal& total);
    void start_expiring();
    void expire_sessions(int64_t bound, bool fold);
    void drop_closed(uint32_t slot, RowTree& tree, int64_t bound);
    void fold_open(uint32_t slot, RowTree& tree, int64_t bound);
    void put_open(uint32_t slot, int64_t start, int64_t last, const int64_t* record);
    void check_open(uint32_t slot);
    void put_open_session(std::string& bytes, uint32_t slot) const;

    // what windows that count keep (keyed/retention.cpp)
    struct Before {  // what has expired of a key, in its words of `before_`
        int64_t* words;
        int64_t& first() const { return words[0]; }  // times
        int64_t& last() const { return words[1]; }
        int64_t* record() const { return words + 2; }
    };
    size_t before_words() const { return plan_->words() + 2; }
    Before before_of(uint32_t slot) { return {before_.data() + slot * before_words()}; }
    Before before_of(uint32_t slot) const { return const_cast<Keyed*>(this)->before_of(slot); }
    bool has_before(uint32_t slot) const {
        return (slot + size_t{1}) * before_words() <= before_.size() && before_of(slot).record()[kRows];
    }
    Before make_before(uint32_t slot);
    void forget_before(uint32_t slot) {
        if (has_before(slot)) Plan::clear(before_of(slot).record()), --befores_;
    }
    void expire_rows(int64_t bound);
    void expire_counted(int64_t bound, int64_t horizon);
    void settle(uint32_t slot, int64_t bound, int64_t horizon);
    size_t needless(uint32_t slot, int64_t horizon, size_t late);
    void evict(uint32_t slot, size_t count);
    void fold_before(uint32_t slot, size_t count);
    void mend_breaks(uint32_t slot);
    void mend_break(uint32_t slot, RowCursor& cursor);
    bool last_break(uint32_t slot, RowPlace upto, RowPlace& found);
    bool holds_any() const { return rows_ || awaited_ || befores_ || open_.count(); }
    bool stays(uint32_t slot) const {
        return windows_[slot].rows.size || awaited_by(slot) || has_before(slot) || open_.has(slot);
    }
    void check_counted(uint32_t slot);

    // anchors
    Anchor anchor_of(uint32_t slot, const int64_t* row) const;
    bool is_empty(const Anchor& boundary) const;
    int64_t counted_until(const Touch& touch) const;
    // Behind all rows of a time, where nobody knows which one it is.
    static Touch after(uint32_t slot, int64_t time) { return {slot, later(time, 1), 0, kFirstTie}; }
    template <class Visit>
    bool each_boundary(uint32_t slot, int64_t from, int64_t to, int64_t& due, Visit&& visit) const;
    void add_counted(const std::vector<Touch>& touches, int64_t until, std::vector<Anchor>& anchors) const;
    std::vector<int64_t> marks_now(const std::vector<Anchor>& anchors);
    void compare_rows(const std::vector<Anchor>& anchors, const std::vector<int64_t>& marks, uint8_t* change);
    Anchors current(std::vector<Anchor> items) const { return {std::move(items), {}, generation_, nullptr}; }
    bool first_at(uint32_t slot, int64_t time, int64_t& found) const;  // the first row that is not before a time
    bool next_shown(uint32_t slot, int64_t from, int64_t& time);
    void start_shown();

    // answers
    struct Run {  // anchors [first, last) of a key whose results go to `base` and after
        size_t first, last, base;
    };
    std::vector<uint32_t> by_key_and_time(const std::vector<Anchor>& anchors);
    bool is_ordered(const std::vector<Anchor>& anchors);
    void answer_key(const Anchor* anchors, const uint32_t* order, size_t base, size_t count,
                    std::vector<RecordOutput>& outs);
    void answer_leaf(const tree::WordLeaf* leaf, const Anchor* anchors, const uint32_t* order, const Run& run,
                     size_t window, RecordOutput& out);
    void find_spans(uint32_t slot, const Anchor* anchors, const uint32_t* order, size_t count, size_t window);
    size_t end_of_run(size_t first, size_t count) const;
    bool pays(size_t first, size_t last) const;
    size_t cost_of(size_t rows) const;
    void answer_pass(uint32_t slot, const Anchor* anchors, const uint32_t* order, const Run& run, size_t window,
                     RecordOutput& out);
    void answer_running(uint32_t slot, const Anchor* anchors, const uint32_t* order, const Run& run, size_t window,
                        RecordOutput& out);
    void fold_window(const Anchor& anchor, size_t window, const RowSpan* known, int64_t* record);
    void start_record(int64_t* record, uint32_t slot, bool before) const;
    Counted counted(const Anchor& anchor, const Extent& window, size_t to);
    RowSpan span_of(const Anchor& anchor, size_t window);
    bool precedes(const Anchor& a, const Anchor& b) const;
    bool fold_span(const RowSpan& span, int64_t* record);
    // Where the record of an anchor is made: with the others that are lowered together, or aside where results need times.
    int64_t* room_for(size_t at, RecordOutput& out) {
        if (!plan_->timed()) return out.slot(*plan_, at, plan_->words());
        merged_.resize(plan_->words());
        return merged_.data();
    }
    void put(int64_t* record, const Anchor& anchor, size_t window, uint32_t place, RecordOutput& out) {
        if (plan_->timed()) put_timed(record, anchor, window, place, out);
    }
    void put_timed(int64_t* record, const Anchor& anchor, size_t window, uint32_t place, RecordOutput& out);
    void prepare(std::vector<RecordOutput>& outs) const {
        for (RecordOutput& out : outs) out.min_rows = frame_.min_rows;
    }
    std::vector<size_t> gather_spans(uint32_t slot, const std::vector<size_t>& from, const std::vector<size_t>& to,
                                     Spans& spans);
    bool is_common(const Column& inputs) const;
    // Times of one key in order: those of rows or questions, which may lie elsewhere.
    struct Instants {
        const int64_t* times;
        const uint32_t* places;  // null: they lie as they are
        size_t count;
        uint32_t place(size_t i) const { return places ? places[i] : static_cast<uint32_t>(i); }
        int64_t operator[](size_t i) const { return times[place(i)]; }
    };
    bool fits(const KeyBatch& batch) const;
    void roll_rows(KeyBatch& batch, const int64_t* times, bool common, const Column& inputs,
                   std::vector<RecordOutput>& outs);
    void roll_questions(KeyBatch& batch, const int64_t* times, bool common, const Column& inputs,
                        const std::vector<Anchor>& questions, std::vector<RecordOutput>& outs);
    void roll_key(const Instants& rows, const Instants& anchors, bool are_rows, bool common, const Column& inputs,
                  std::vector<RecordOutput>& outs);
    void find_frames(const Instants& rows, const Instants& anchors, bool are_rows, const Extent& window,
                     std::vector<uint32_t>& from, std::vector<uint32_t>& to);
    void find_counted(const Instants& rows, const Instants& anchors, const Extent& window, std::vector<uint32_t>& from,
                      const std::vector<uint32_t>& to) const;
    void roll_columns(const Instants& rows, const Instants& anchors, const Frames& frames, const Column& inputs,
                      RecordOutput& out) const;
    void fill_table(const Instants& rows, const Column& inputs);
    void roll_records(const Instants& rows, const Instants& anchors, const Frames& frames, size_t window,
                      RecordOutput& out);
    uint32_t nobody();  // a slot that no key has
    Stop stop_of(const Anchor& anchor, const Extent& window) const;

    std::shared_ptr<const Plan> plan_;
    Frame frame_;
    RowShape shape_;
    std::unique_ptr<Names> names_;
    RowNodes nodes_, awaited_nodes_;
    RowAlgebra algebra_, awaited_algebra_;
    std::unique_ptr<std::atomic<size_t>> progress_;

    std::vector<KeyWindow> windows_;
    OpenSessions open_;                              // what is folded of sessions
    std::vector<tree::SmallSpines> awaited_spines_;  // deletes that came before their rows, by slot, as far as needed
    std::vector<tree::SmallSpines> break_spines_;    // rows that come more than `idle` after those before them, by slot
    std::vector<int64_t> before_;                    // what has expired, where a window is unbounded, by slot
    size_t befores_ = 0;
    std::vector<RowPlace> changes_;  // of one key, where gaps may have changed
    bool counts_ = false, ranked_ = false;
    int64_t settled_ = INT64_MIN;  // the last horizon, where windows count
    std::vector<uint32_t> table_;  // of slots + 1, by the hash of their keys
    std::vector<uint32_t> free_;
    std::vector<uint32_t> unsure_;  // keys that may have neither rows nor deletes
    std::vector<uint32_t> due_;     // keys that were taken from an agenda
    uint32_t epoch_ = 0;
    uint64_t generation_ = 0;  // how many keys have gone
    size_t rows_ = 0, awaited_ = 0;
    size_t key_bytes_ = 0;  // of keys that are too long to stand in their strings
    int64_t newest_ = INT64_MIN;
    Agenda expiring_, forgetting_, showing_;  // rows, awaited deletes, anchors
    Agenda settling_;                         // rows that windows count, by the horizon

    std::vector<uint32_t> sizes_;  // of groups
    std::vector<Late> late_;       // rows of one key that are not appended
    std::vector<int64_t> scratch_, merged_, table_rows_;
    std::vector<RowSpan> spans_;
    int64_t batch_seq_ = 0;  // while a batch is applied
    uint8_t* batch_status_ = nullptr;
    const int64_t* batch_identities_ = nullptr;
    std::vector<uint32_t> deletes_;  // rows of a batch that wait for the inserts of their key
    std::vector<Touch> touches_;
    std::vector<Gone> gone_;
};

}  // namespace sash
