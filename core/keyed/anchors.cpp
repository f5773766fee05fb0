// Which anchors there are results for: rows, or boundaries of the grid.
#include <algorithm>
#include <optional>
#include <tuple>

#include "base/hash.hpp"
#include "keyed/keyed.hpp"

namespace sash {

namespace {

void sort_by_arrival(std::vector<Anchor>& anchors) {
    auto earlier = [](const Anchor& a, const Anchor& b) { return std::tie(a.time, a.seq) < std::tie(b.time, b.seq); };
    if (!std::is_sorted(anchors.begin(), anchors.end(), earlier)) std::sort(anchors.begin(), anchors.end(), earlier);
}

}  // namespace

// --- rows ----------------------------------------------------------------------------------------------

Anchors Keyed::arrived(const KeyBatch& batch, const int64_t* times, const int64_t* ids, const uint8_t* status) const {
    std::vector<Anchor> anchors;
    anchors.reserve(batch.slots.size());
    for (size_t row = 0; row < batch.slots.size(); ++row) {
        int64_t seq = batch.seq + static_cast<int64_t>(row);
        if (status[row] == inserted) anchors.push_back({batch.slots[row], true, times[row], ids ? ids[row] : seq, seq});
    }
    return current(std::move(anchors));
}

Anchor Keyed::anchor_of(uint32_t slot, const int64_t* row) const {
    return {slot, true, row[RowShape::kTime], row[RowShape::kTie], RowShape::seq_of(row)};
}

// Only keys that have a row which was not asked for yet are looked at.
Anchors Keyed::between(int64_t from, int64_t to) {
    std::vector<Anchor> anchors;
    if (from > to) return current({});
    start_shown();
    due_.clear();
    for (uint32_t slot; showing_.take(to, slot);)
        if (windows_[slot].rows.size) due_.push_back(slot);
    for (uint32_t slot : due_) {
        RowCursor cursor(tree_of(slot), {from, kFirstTie});
        for (; !cursor.at_end() && cursor.place().time <= to; cursor.next())
            anchors.push_back(anchor_of(slot, row_at(cursor)));
        if (!cursor.at_end()) showing_.lower(slot, cursor.place().time);
    }
    sort_by_arrival(anchors);
    return current(std::move(anchors));
}

// The time of the last anchor that has the row of a touch among its last rows, or had it before.
int64_t Keyed::counted_until(const Touch& touch) const {
    RowTree tree = tree_of(touch.slot);
    auto most = static_cast<size_t>(frame_.most_rows());
    if (!most || !tree.size()) return touch.time;
    size_t last = tree.rank(tree.search({touch.time, touch.tie})) + most;
    return last < tree.size() ? RowCursor::at_rank(tree, last).place().time : INT64_MAX;
}

// An event at t changes the anchors of its key from t on, as far as the largest windows reach.
Anchors Keyed::touched(int64_t from) {
    std::vector<Anchor> anchors;
    auto earlier = [](const Touch& a, const Touch& b) { return std::tie(a.slot, a.time) < std::tie(b.slot, b.time); };
    // Rows of one key came in two ascending runs: those that were appended, then those that were late.
    auto late = std::is_sorted_until(touches_.begin(), touches_.end(), earlier);
    if (std::is_sorted(late, touches_.end(), earlier))
        std::inplace_merge(touches_.begin(), late, touches_.end(), earlier);
    else
        std::sort(touches_.begin(), touches_.end(), earlier);
    for (size_t i = 0; i < touches_.size();) {
        uint32_t slot = touches_[i].slot;
        std::optional<RowCursor> cursor;
        for (; i < touches_.size() && touches_[i].slot == slot; ++i) {
            if (!windows_[slot].rows.size) continue;
            int64_t time = std::max(touches_[i].time, from);
            int64_t until = std::max(touches_[i].until, counted_until(touches_[i]));
            if (!cursor) cursor.emplace(tree_of(slot), RowPlace{time, kFirstTie});
            cursor->seek({time, kFirstTie});
            for (; !cursor->at_end() && cursor->place().time <= until; cursor->next())
                anchors.push_back(anchor_of(slot, row_at(*cursor)));
        }
    }
    touches_.clear();
    sort_by_arrival(anchors);
    return current(std::move(anchors));
}

void Keyed::touch(const std::vector<Anchor>& anchors, const int64_t* until) {
    for (size_t i = 0; i < anchors.size(); ++i)
        if (windows_[anchors[i].slot].rows.size) touches_.push_back({anchors[i].slot, anchors[i].time, until[i], 0});
}

std::vector<int64_t> Keyed::seen_until(const KeyBatch& batch, const int64_t* times) const {
    std::vector<int64_t> until(batch.slots.size());
    for (size_t row = 0; row < until.size(); ++row) {
        int64_t counted = counted_until(after(batch.slots[row], times[row]));
        until[row] = std::max(frame_.seen_until(times[row]), counted);
    }
    return until;
}

std::vector<int64_t> Keyed::gone() {
    std::vector<Gone> gone = std::exchange(gone_, {});
    std::vector<size_t> order(gone.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    auto name = [&](size_t i) { return std::tie(gone[i].slot, gone[i].time); };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return name(a) < name(b); });
    std::vector<bool> stays(gone.size());  // under its name: by a row that is there, or one that has gone too
    for (size_t i = 0; i < order.size(); ++i) {
        const Gone& one = gone[order[i]];
        if (one.named) continue;
        int64_t found;
        bool again = i + 1 < order.size() && name(order[i]) == name(order[i + 1]);
        stays[order[i]] = again || (first_at(one.slot, one.time, found) && found == one.time);
    }
    std::vector<int64_t> seqs;
    for (size_t i = 0; i < gone.size(); ++i)
        if (!stays[i]) seqs.push_back(gone[i].seq);
    return seqs;
}

// --- boundaries ----------------------------------------------------------------------------------------

bool Keyed::first_at(uint32_t slot, int64_t time, int64_t& found) const {
    if (!windows_[slot].rows.size) return false;
    RowCursor cursor(tree_of(slot), {time, kFirstTie});
    if (cursor.at_end()) return false;
    found = cursor.place().time;
    return true;
}

// The boundaries of a key with from < b <= to that have something to show. True: there is a later one, or may be, at `due`.
template <class Visit>
bool Keyed::each_boundary(uint32_t slot, int64_t from, int64_t to, int64_t& due, Visit&& visit) const {
    RowTree tree = tree_of(slot);
    if (!tree.size() || !frame_.next_boundary(std::max(from, tree.oldest().time), due)) return false;
    RowCursor cursor(tree, {frame_.first_shown(due), kFirstTie});
    while (due <= to) {
        cursor.seek({frame_.first_shown(due), kFirstTie});
        if (cursor.at_end()) return false;
        int64_t time = cursor.place().time;
        if (time < due)
            visit(due);
        else
            due = time;  // nothing is seen before the first that sees this row
        if (!frame_.next_boundary(due, due)) return false;
    }
    return !cursor.at_end();
}

Anchors Keyed::boundaries(int64_t from, int64_t to, const Anchors* watched) {
    Anchors found = watched ? *watched : current({});
    std::vector<uint32_t> due;
    start_shown();
    for (uint32_t slot; showing_.take(to, slot);)
        if (windows_[slot].rows.size) due.push_back(slot);
    std::sort(due.begin(), due.end());
    for (uint32_t slot : due) {
        int64_t next;
        auto add = [&](int64_t boundary) { found.items.push_back({slot, false, boundary, 0, 0}); };
        if (each_boundary(slot, from, to, next, add)) showing_.lower(slot, next);
    }
    return found;
}

Anchors Keyed::watch(const KeyBatch& batch, const int64_t* times, const uint8_t* late, int64_t until) {
    std::vector<Touch> touches;
    for (size_t row = 0; row < batch.slots.size(); ++row) {
        int64_t time = placed(times[row]);
        if (!(late && late[row]) && time < until) touches.push_back({batch.slots[row], time, until, kFirstTie});
    }
    std::sort(touches.begin(), touches.end(),
              [](const Touch& a, const Touch& b) { return std::tie(a.slot, a.time) < std::tie(b.slot, b.time); });
    std::vector<Anchor> anchors;
    bool timed = std::any_of(frame_.windows.begin(), frame_.windows.end(), [](auto& one) { return !one.counts(); });
    for (const Touch& touch : touches) {
        int64_t boundary;
        if (!frame_.next_boundary(touch.time, boundary)) continue;
        int64_t last = std::min(timed ? frame_.timed_until(touch.time) : boundary, until);
        if (!anchors.empty() && anchors.back().slot == touch.slot && anchors.back().time >= boundary)
            if (!frame_.next_boundary(anchors.back().time, boundary)) continue;
        while (boundary <= last) {
            anchors.push_back({touch.slot, false, boundary, 0, 0});
            if (!frame_.next_boundary(boundary, boundary)) break;
        }
    }
    if (counts_) add_counted(touches, until, anchors);
    std::vector<int64_t> marks = marks_now(anchors);
    return {std::move(anchors), std::move(marks), generation_, nullptr};
}

// Windows that count have rows that no window of times has any more: all boundaries that see a row are added, each once.
void Keyed::add_counted(const std::vector<Touch>& touches, int64_t until, std::vector<Anchor>& anchors) const {
    bool all = frame_.has(Extent::unbounded);
    int64_t done = INT64_MIN, due;
    for (size_t i = 0; i < touches.size(); ++i) {
        const Touch& touch = touches[i];
        if (i == 0 || touches[i - 1].slot != touch.slot) done = INT64_MIN;
        int64_t last = all ? until : std::min(until, counted_until(after(touch.slot, touch.time)));
        each_boundary(touch.slot, std::max(done, touch.time), last, due,
                      [&](int64_t boundary) { anchors.push_back({touch.slot, false, boundary, 0, 0}); });
        done = std::max(done, last);
    }
    auto place = [](const Anchor& anchor) { return std::tie(anchor.slot, anchor.time); };
    std::sort(anchors.begin(), anchors.end(), [&](const Anchor& a, const Anchor& b) { return place(a) < place(b); });
    auto same = [&](const Anchor& a, const Anchor& b) { return place(a) == place(b); };
    anchors.erase(std::unique(anchors.begin(), anchors.end(), same), anchors.end());
}

// --- what is due ---------------------------------------------------------------------------------------

// The first time from `from` on at which a key has something to show: a row, or a boundary.
bool Keyed::next_shown(uint32_t slot, int64_t from, int64_t& time) {
    if (frame_.gap) return next_closing(slot, time);
    if (!windows_[slot].rows.size) return false;
    if (!frame_.on_grid()) return first_at(slot, from, time);
    int64_t row;
    if (!frame_.next_boundary(std::max(from, tree_of(slot).oldest().time), time)) return false;
    if (!first_at(slot, frame_.first_shown(time), row)) return false;
    return row < time || frame_.next_boundary(row, time);
}

// From the first question on keys are entered as rows come; those that were there before are entered here.
void Keyed::start_shown() {
    if (showing_.started()) return;
    showing_.start();
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        int64_t time;
        if (next_shown(slot, INT64_MIN, time)) showing_.lower(slot, time);
    }
}

// A key's time is a lower bound, so the earliest one is looked at until it is the time of something.
bool Keyed::pending(int64_t from, int64_t& time) {
    start_shown();
    uint32_t slot;
    for (int64_t due; showing_.earliest(due);) {
        if (!showing_.take(due, slot) || !next_shown(slot, from, time)) continue;
        showing_.lower(slot, time);
        if (Agenda::as_entered(time) == due) return true;
    }
    return false;
}

// Rows of the first time are not divided: there would be no end to them where they are many.
int64_t Keyed::nth_time(int64_t from, int64_t to, size_t count) {
    std::vector<int64_t> times;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        if (!windows_[slot].rows.size) continue;
        RowCursor cursor(tree_of(slot), {from, kFirstTie});
        for (; !cursor.at_end() && cursor.place().time < to; cursor.next()) times.push_back(cursor.place().time);
    }
    if (times.size() <= count) return INT64_MAX;
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(count), times.end());
    int64_t time = times[count];
    bool first = count && *std::min_element(times.begin(), times.end()) == time;
    return first ? later(time, 1) : time;
}

bool Keyed::newest(int64_t& time) const {
    time = newest_;
    return holds_any();
}

bool Keyed::is_empty(const Anchor& boundary) const {
    int64_t time;
    return !first_at(boundary.slot, frame_.first_shown(boundary.time), time) || time >= boundary.time;
}

// --- what has changed ----------------------------------------------------------------------------------

std::vector<int64_t> Keyed::marks_of(const std::vector<Anchor>& anchors, const std::vector<RecordOutput>& outs,
                                     const int64_t* extra) const {
    std::vector<int64_t> marks(anchors.size()), shown;
    for (size_t i = 0; i < anchors.size(); ++i) {
        if (frame_.on_grid() ? is_empty(anchors[i]) : frame_.gap && is_swallowed(anchors[i])) continue;
        shown.clear();
        if (frame_.gap) shown.push_back(anchors[i].seq);
        if (frame_.shown)
            for (const RecordOutput& out : outs) out.row(*plan_, i, shown);
        if (extra) shown.push_back(extra[i]);
        marks[i] = static_cast<int64_t>(hash64(shown.data(), shown.size() * sizeof(int64_t), 1) | 1);
    }
    return marks;
}

// The same where nobody has asked for the results themselves.
std::vector<int64_t> Keyed::marks_now(const std::vector<Anchor>& anchors) {
    if (!frame_.shown || anchors.empty()) return marks_of(anchors, {}, nullptr);
    size_t windows = frame_.windows.size(), rows = anchors.size();
    std::vector<int64_t> words(windows * rows * plan_->result_words());
    std::vector<uint8_t> there(windows * rows * plan_->parts());
    std::vector<RecordOutput> outs(windows);
    for (size_t w = 0; w < windows; ++w) {
        outs[w].words = words.data() + w * rows * plan_->result_words();
        outs[w].there = there.data() + w * rows * plan_->parts();
        outs[w].rows = rows;
    }
    answer(anchors, outs);
    return marks_of(anchors, outs, nullptr);
}

std::vector<uint8_t> Keyed::changed(const Anchors& anchors, const std::vector<RecordOutput>& outs,
                                    const int64_t* extra) {
    std::vector<int64_t> marks = marks_of(anchors.items, outs, extra);
    std::vector<uint8_t> change(marks.size(), fresh);
    if (!frame_.on_grid() && !frame_.gap) compare_rows(anchors.items, marks, change.data());
    for (size_t i = 0; i < anchors.marks.size(); ++i)
        if (marks[i] == anchors.marks[i])
            change[i] = same;
        else
            change[i] = !marks[i] ? emptied : anchors.marks[i] ? revised : fresh;
    return change;
}

// Anchors of one key mostly follow each other, so each is sought from the one before.
void Keyed::compare_rows(const std::vector<Anchor>& anchors, const std::vector<int64_t>& marks, uint8_t* change) {
    std::optional<RowCursor> cursor;
    for (size_t i = 0; i < anchors.size(); ++i) {
        RowPlace place{anchors[i].time, anchors[i].tie};
        bool follows = cursor && anchors[i].slot == anchors[i - 1].slot && !nodes_.less(place, cursor->place());
        if (follows)
            cursor->seek(place);
        else
            cursor.emplace(tree_of(anchors[i].slot), place);
        int64_t* row = nodes_.row(cursor->leaf(), cursor->position());
        int64_t mark = row[RowShape::kMark];
        change[i] = mark == marks[i] ? same : mark ? revised : fresh;
        row[RowShape::kMark] = marks[i];
    }
}

}  // namespace sash
