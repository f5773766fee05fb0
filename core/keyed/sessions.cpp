// Sessions: rows of a key that follow each other at most `gap` apart.
//
// They are not stored but found, in O(log n), by walks from a row to where a gap is wider. Rows behind the horizon are
// folded, so a key's first session may begin with a record of rows that are gone (open_sessions.hpp). As an anchor, a
// session has its start as its time and its last event as its place.
#include <algorithm>

#include "keyed/gap_walk.hpp"
#include "keyed/keyed.hpp"

namespace sash {

namespace {

constexpr int64_t kSwallowed = 1;  // the tie of a session that is no longer there

RowTree::Path first_path(const RowTree& tree) {
    RowTree::Path path = tree.finger_path(false);
    path.position = path.leaf->begin;
    return path;
}

bool is_before(const Anchor& a, const Anchor& b) { return a.slot != b.slot ? a.slot < b.slot : a.time < b.time; }

}  // namespace

Anchor Keyed::session_at(uint32_t slot, int64_t start, int64_t last) {
    Anchor session{};
    session.slot = slot;
    session.time = start;
    session.seq = last;
    return session;
}

// --- finding them --------------------------------------------------------------------------------------

bool Keyed::first_session(uint32_t slot, Anchor& session) {
    RowTree tree = tree_of(slot);
    bool open = open_.has(slot);
    if (!open && !tree.size()) return false;
    int64_t start = open ? open_.start(slot) : tree.oldest().time;
    GapWalk walk(tree, frame_.gap, open ? open_.last(slot) : start);
    if (tree.size()) walk.forward(first_path(tree));
    session = session_at(slot, start, walk.reached);
    return true;
}

bool Keyed::next_session(Anchor& session) {
    RowTree tree = tree_of(session.slot);
    if (session.seq == INT64_MAX || !tree.size()) return false;
    RowCursor cursor(tree, {session.seq + 1, kFirstTie});
    if (cursor.at_end()) return false;
    int64_t start = cursor.place().time;
    GapWalk walk(tree, frame_.gap, start);
    walk.forward(tree.search({start, kFirstTie}));
    session = session_at(session.slot, start, walk.reached);
    return true;
}

// The sessions that have a row as near to a time as rows of one session are: one or two, or none. Returns where the last
// one ends.
int64_t Keyed::sessions_near(uint32_t slot, int64_t time, std::vector<Anchor>& sessions) {
    RowTree tree = tree_of(slot);
    GapWalk before(tree, frame_.gap, time), after(tree, frame_.gap, time);
    bool all = true;
    if (tree.size()) {
        RowTree::Path path = tree.search({time, kFirstTie});
        all = before.backward(path);
        after.forward(path);
    }
    if (all && open_.has(slot)) before.step_back(open_.last(slot), open_.start(slot));
    bool joined = before.any && after.any && distance(before.nearest, after.nearest) <= uint64_t(frame_.gap);
    if (joined) {
        sessions.push_back(session_at(slot, before.reached, after.reached));
    } else {
        if (before.any) sessions.push_back(session_at(slot, before.reached, before.nearest));
        if (after.any) sessions.push_back(session_at(slot, after.nearest, after.reached));
    }
    return after.any ? after.reached : time;
}

// Those that the rows of a batch touch, by key and start. A session that is whole contains or borders on none of them
// twice: what lies up to the end of the last one found was found with it.
std::vector<Anchor> Keyed::sessions_around(const KeyBatch& batch, const int64_t* times, const uint8_t* late) {
    std::vector<Anchor> found, near;
    std::vector<int64_t> instants;
    for (size_t first = 0, last; first < batch.order.size(); first = last) {
        uint32_t slot = batch.slots[batch.order[first]];
        instants.clear();
        for (last = first; last < batch.order.size() && batch.slots[batch.order[last]] == slot; ++last)
            if (!late || !late[batch.order[last]]) instants.push_back(times[batch.order[last]]);
        if (!std::is_sorted(instants.begin(), instants.end())) std::sort(instants.begin(), instants.end());
        bool some = false;
        int64_t until = 0;
        RowTree tree = tree_of(slot);
        for (int64_t time : instants) {
            if (some && time <= until) continue;
            near.clear();
            until = sessions_near(slot, time, near);
            for (const Anchor& session : near)
                if (!some || found.empty() || found.back().slot != slot || found.back().time < session.time)
                    found.push_back(session);
            some = true;
            if (!tree.size() || tree.newest().time < time) break;  // what comes later is near the same session, or none
        }
    }
    if (!std::is_sorted(found.begin(), found.end(), is_before)) std::sort(found.begin(), found.end(), is_before);
    return found;
}

// --- which of them are due -----------------------------------------------------------------------------

Anchors Keyed::closing(int64_t until) {
    std::vector<Anchor> closed;
    std::vector<uint32_t> due;
    start_shown();
    for (uint32_t slot; showing_.take(until, slot);) due.push_back(slot);
    std::sort(due.begin(), due.end());
    for (uint32_t slot : due) {
        Anchor session;
        for (bool there = first_session(slot, session); there; there = next_session(session)) {
            int64_t end = later(session.seq, frame_.gap);
            if (end > until) {
                showing_.lower(slot, end);
                break;
            }
            closed.push_back(session);
        }
    }
    return current(std::move(closed));
}

Anchors Keyed::open_sessions() {
    std::vector<Anchor> sessions;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        Anchor session;
        for (bool there = first_session(slot, session); there; there = next_session(session))
            sessions.push_back(session);
    }
    return current(std::move(sessions));
}

// When the first session of a key ends.
bool Keyed::next_closing(uint32_t slot, int64_t& time) {
    Anchor session;
    if (!first_session(slot, session)) return false;
    time = std::min(later(session.seq, frame_.gap), Agenda::kNever - 1);
    return true;
}

// A time before which no session of a key ends.
void Keyed::lower_closing(uint32_t slot) {
    if (open_.has(slot))
        showing_.lower(slot, later(open_.last(slot), frame_.gap));
    else if (RowTree tree = tree_of(slot); tree.size())
        showing_.lower(slot, later(tree.oldest().time, frame_.gap));
}

// --- what has changed ----------------------------------------------------------------------------------

Anchors Keyed::watch_sessions(const KeyBatch& batch, const int64_t* times, const uint8_t* late) {
    std::vector<Anchor> sessions = sessions_around(batch, times, late);
    std::vector<int64_t> marks = marks_now(sessions);
    return {std::move(sessions), std::move(marks), generation_, nullptr};
}

// Sessions before and after the batch, each once. One that was there and is not now has been swallowed, or has lost its
// first row: the rows of the batch lie at it or beside it in either state, so both lists have it as far as it exists.
Anchors Keyed::changed_sessions(const KeyBatch& batch, const int64_t* times, const uint8_t* late,
                                const Anchors& watched) {
    std::vector<Anchor> now = sessions_around(batch, times, late);
    Anchors all{{}, {}, generation_, nullptr};
    size_t i = 0, k = 0;
    const std::vector<Anchor>& then = watched.items;
    while (i < then.size() || k < now.size()) {
        bool was = i < then.size() && (k == now.size() || !is_before(now[k], then[i]));
        bool is = k < now.size() && (i == then.size() || !is_before(then[i], now[k]));
        all.items.push_back(is ? now[k] : then[i]);
        if (!is) all.items.back().tie = kSwallowed;
        all.marks.push_back(was ? watched.marks[i] : 0);
        i += was;
        k += is;
    }
    return all;
}

bool Keyed::is_swallowed(const Anchor& session) { return session.tie == kSwallowed; }

// --- results -------------------------------------------------------------------------------------------

void Keyed::answer_sessions(const std::vector<Anchor>& sessions, RecordOutput& out) {
    *progress_ = 0;
    for (size_t i = 0; i < sessions.size(); ++i) {
        prefetch(i, sessions.size(), [&](size_t k) { return sessions[k].slot; }, all_rows);
        const Anchor& session = sessions[i];
        int64_t* record = room_for(i, out);
        RowTotal total(record);
        if (!is_swallowed(session)) fold_session(session, total);
        algebra_.combines += total.combines;
        if (plan_->timed()) plan_->store(record, {session.time, later(session.seq, frame_.gap)}, out, i);
    }
    out.flush();
    progress_->fetch_add(sessions.size(), std::memory_order_relaxed);
}

void Keyed::fold_session(const Anchor& session, RowTotal& total) {
    uint32_t slot = session.slot;
    if (open_.has(slot) && open_.start(slot) == session.time) {
        std::copy_n(open_.record(slot), plan_->words(), total.words());
        ++total.combines;
    }
    const tree::SmallSpines& rows = windows_[slot].rows;
    if (!rows.size) return;
    if (rows.height() == 0) return fold_leaf_of(static_cast<tree::WordLeaf*>(rows.root()), session, total);
    Range<RowPlace> range;
    range.start = RowPlace{session.time, kFirstTie};
    if (session.seq < INT64_MAX) range.stop = RowPlace{session.seq + 1, kFirstTie};
    range.stop_inside = false;
    summaries_of(slot).fold(range, total);
}

void Keyed::fold_leaf_of(const tree::WordLeaf* leaf, const Anchor& session, RowTotal& total) {
    uint32_t from = leaf->begin, to = leaf->end;
    while (from < to && nodes_.place(leaf, from).time < session.time) ++from;
    while (to > from && nodes_.place(leaf, to - 1).time > session.seq) --to;
    if (from < to) algebra_.add_rows(total, nodes_.row(leaf, from), to - from);
}

// --- expiry --------------------------------------------------------------------------------------------

// Sessions that end at a time or before are dropped. What the next one has up to that time is folded, or dropped too
// where it is known to be folded already.
void Keyed::expire_sessions(int64_t bound, bool fold) {
    open_.changed.clear();
    due_.clear();
    for (uint32_t slot; expiring_.take(bound, slot);) due_.push_back(slot);
    for (size_t i = 0; i < due_.size(); ++i) {
        prefetch(i, due_.size(), [&](size_t k) { return due_[k]; }, first_row);
        uint32_t slot = due_[i];
        RowTree tree = tree_of(slot);
        if (fold) {
            drop_closed(slot, tree, bound);
            fold_open(slot, tree, bound);
        } else if (open_.has(slot) && later(open_.last(slot), frame_.gap) <= bound) {
            open_.drop(slot);
        }
        if (tree.size()) rows_ -= tree.evict_until({bound + 1, kFirstTie}, false);
        if (tree.size()) expiring_.lower(slot, tree.oldest().time);
        if (open_.has(slot)) expiring_.lower(slot, later(open_.last(slot), frame_.gap));
        tree.shrink_leaf();
        free_if_empty(slot);
    }
}

void Keyed::drop_closed(uint32_t slot, RowTree& tree, int64_t bound) {
    Anchor session;
    if (tree.size() && later(tree.newest().time, frame_.gap) <= bound) {  // all of them
        open_.drop(slot);
        rows_ -= tree.evict_until({tree.newest().time + 1, kFirstTie}, false);
        return;
    }
    while (first_session(slot, session) && later(session.seq, frame_.gap) <= bound) {
        open_.drop(slot);
        if (tree.size()) rows_ -= tree.evict_until({session.seq + 1, kFirstTie}, false);
    }
}

// Rows of one session: another one would begin after the end of this one, which has not come.
void Keyed::fold_open(uint32_t slot, RowTree& tree, int64_t bound) {
    if (!tree.size() || tree.oldest().time > bound) return;
    RowTotal total = algebra_.total();
    Range<RowPlace> range;
    range.stop = RowPlace{bound + 1, kFirstTie};
    range.stop_inside = false;
    summaries_of(slot).fold(range, total);
    algebra_.combines += total.combines + 1;
    if (open_.has(slot))
        open_.join(slot, *plan_, total.gaps.last, total.words());
    else
        open_.put(slot, total.gaps.first, total.gaps.last, total.words());
    open_.changed.push_back(slot);
}

// --- open sessions, out and in -------------------------------------------------------------------------

Anchors Keyed::folded(std::vector<int64_t>& records) const {
    std::vector<Anchor> sessions;
    for (uint32_t slot : open_.changed) {
        sessions.push_back(session_at(slot, open_.start(slot), open_.last(slot)));
        records.insert(records.end(), open_.record(slot), open_.record(slot) + plan_->words());
    }
    return current(std::move(sessions));
}

void Keyed::unfold(const KeyBatch& batch, const int64_t* starts, const int64_t* lasts, const int64_t* records) {
    for (uint32_t row = 0; row < batch.slots.size(); ++row)
        put_open(batch.slots[row], starts[row], lasts[row], records + size_t{row} * plan_->words());
}

void Keyed::put_open(uint32_t slot, int64_t start, int64_t last, const int64_t* record) {
    newest_ = holds_any() ? std::max(newest_, last) : last;
    open_.put(slot, start, last, record);
    expiring_.lower(slot, later(last, frame_.gap));
    if (showing_.started()) lower_closing(slot);
}

void Keyed::check_open(uint32_t slot) {
    if (!open_.has(slot)) return;
    RowTree tree = tree_of(slot);
    int64_t last = open_.last(slot);
    require(windows_[slot].live && open_.start(slot) <= last, "an open session is that of a key");
    require(!tree.size() || last < tree.oldest().time, "rows are not older than what is folded");
    if (expiring_.started())
        require(expiring_.has(slot, later(last, frame_.gap)), "the end of an open session is on the agenda");
}

}  // namespace sash
