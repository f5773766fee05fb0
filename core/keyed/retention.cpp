// What windows that count keep: the last rows of each key before the horizon, the aggregate of what has expired, and
// where gaps are after which they start from nothing.
//
// No row before the horizon can come any more. So a window of the last n rows needs at most n of those before it, and one
// that is unbounded only their aggregate. A key waits on an agenda until the horizon has passed a row that it has not
// passed yet; then as many rows go as have come.
#include "keyed/keyed.hpp"
#include "tree/check.hpp"

namespace sash {

// --- places --------------------------------------------------------------------------------------------

RowTree Keyed::places_of(uint32_t slot, std::vector<tree::SmallSpines>& spines) {
    if (spines.size() <= slot) spines.resize(std::max<size_t>(slot + 1, spines.size() * 3 / 2));
    return RowTree(awaited_nodes_, spines[slot], awaited_algebra_);
}

bool Keyed::add_place(RowTree tree, RowPlace place) {
    auto write = [&](auto* leaf, uint32_t i) -> const int64_t* {
        int64_t* row = awaited_nodes_.row(leaf, i);
        row[0] = place.time;
        row[1] = place.tie;
        return row;
    };
    tree.start_if_empty();
    if (!tree.size() || awaited_nodes_.less(tree.newest(), place)) {
        tree.append(place, write);
        return true;
    }
    RowTree::Path path = tree.search(place);
    if (path.found) return false;
    tree.insert_at(path, place, write);
    return true;
}

// --- gaps ----------------------------------------------------------------------------------------------

// Rows have come or gone at some places of a key: they, and those after them, may follow a gap now, or none.
void Keyed::mend_breaks(uint32_t slot) {
    RowTree tree = tree_of(slot);
    for (const RowPlace& place : changes_) {
        if (breaks_in(slot)) {
            RowTree breaks = breaks_of(slot);
            RowTree::Path path = breaks.search(place);
            if (path.found) breaks.evict_at(path);
        }
        if (!tree.size()) continue;
        RowCursor cursor(tree, place);
        bool there = !cursor.at_end() && !nodes_.less(place, cursor.place());
        for (int left = 1 + there; left > 0 && !cursor.at_end(); --left, cursor.next()) mend_break(slot, cursor);
    }
    changes_.clear();
}

void Keyed::mend_break(uint32_t slot, RowCursor& cursor) {
    RowPlace place = cursor.place();
    bool follows = false;
    if (cursor.rank())
        follows = apart(RowCursor::at_rank(tree_of(slot), cursor.rank() - 1).place().time, place.time, frame_.idle);
    else if (has_before(slot))
        follows = apart(before_of(slot).last(), place.time, frame_.idle);
    if (follows) {
        add_place(breaks_of(slot), place);
    } else if (breaks_in(slot)) {
        RowTree breaks = breaks_of(slot);
        RowTree::Path path = breaks.search(place);
        if (path.found) breaks.evict_at(path);
    }
}

// The last row at or before a place that follows a gap.
bool Keyed::last_break(uint32_t slot, RowPlace upto, RowPlace& found) {
    if (!breaks_in(slot)) return false;
    RowTree breaks = breaks_of(slot);
    RowTree::Path path = breaks.search(upto);
    size_t rank = breaks.rank(path) + path.found;
    if (!rank) return false;
    found = RowCursor::at_rank(breaks, rank - 1).place();
    return true;
}

// --- what goes -----------------------------------------------------------------------------------------

Keyed::Before Keyed::make_before(uint32_t slot) {
    size_t needed = (slot + size_t{1}) * before_words();
    if (before_.size() < needed)
        before_.resize(std::max(needed, before_.size() / before_words() * 3 / 2 * before_words()));
    return before_of(slot);
}

// The first rows of a key join what has expired before them, from the last gap on.
void Keyed::fold_before(uint32_t slot, size_t count) {
    RowTree tree = tree_of(slot);
    Before before = make_before(slot);
    bool had = has_before(slot);
    Range<RowPlace> range;
    RowPlace last = RowCursor::at_rank(tree, count - 1).place(), start = tree.oldest();
    bool starts = last_break(slot, last, start);
    range.start = start;
    range.stop = last;
    RowTotal total = algebra_.total();
    if (had && !starts) std::memcpy(total.words(), before.record(), plan_->words() * sizeof(int64_t));
    summaries_of(slot).fold(range, total);
    algebra_.combines += total.combines;
    std::memcpy(before.record(), total.words(), plan_->words() * sizeof(int64_t));
    if (!had || starts) before.first() = start.time;
    before.last() = last.time;
    befores_ += !had;
}

void Keyed::evict(uint32_t slot, size_t count) {
    if (!count) return;
    RowTree tree = tree_of(slot);
    if (frame_.has(Extent::unbounded)) fold_before(slot, count);
    bool all = count == tree.size();
    RowPlace edge = all ? tree.newest() : RowCursor::at_rank(tree, count).place();
    rows_ -= tree.evict_until(edge, all);
    if (breaks_in(slot)) {
        breaks_of(slot).evict_until(edge, all);
        breaks_of(slot).shrink_leaf();
    }
    tree.shrink_leaf();
}

// How many of the first rows of a key no window needs that counts; `late` of them are before the horizon.
size_t Keyed::needless(uint32_t slot, int64_t horizon, size_t late) {
    auto kept = static_cast<size_t>(frame_.most_rows());
    size_t count = late - std::min(late, kept);
    if (!frame_.idle || !late) return count;
    RowTree tree = tree_of(slot);
    RowPlace last = RowCursor::at_rank(tree, late - 1).place(), start;
    if (apart(last.time, horizon, frame_.idle)) return late;
    return last_break(slot, last, start) ? std::max(count, tree.rank(tree.search(start))) : count;
}

void Keyed::settle(uint32_t slot, int64_t bound, int64_t horizon) {
    RowTree tree = tree_of(slot);
    size_t late = tree.size() ? tree.rank(tree.search({horizon, kFirstTie})) : 0;
    size_t count = needless(slot, horizon, late);
    int64_t last = late               ? RowCursor::at_rank(tree, late - 1).place().time
                   : has_before(slot) ? before_of(slot).last()
                                      : INT64_MAX;
    if (size_t old = count && bound < earlier(horizon, 1) ? tree.rank(tree.search({bound + 1, kFirstTie})) : count;
        old < count) {
        count = old;
        expiring_.lower(slot, RowCursor::at_rank(tree, old).place().time);
    }
    evict(slot, count);
    if (late < count + tree.size()) settling_.lower(slot, RowCursor::at_rank(tree, late - count).place().time);
    if (frame_.idle && last < INT64_MAX) {
        if (!apart(last, horizon, frame_.idle))
            settling_.lower(slot, later(last, frame_.idle));
        else if (late == count)
            forget_before(slot);
    }
    free_if_empty(slot);
}

void Keyed::expire_counted(int64_t bound, int64_t horizon) {
    if (!settling_.started()) {
        for (Agenda* agenda : {&expiring_, &settling_}) agenda->start();
        for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
            if (windows_[slot].rows.size) settling_.lower(slot, tree_of(slot).oldest().time);
            if (has_before(slot)) settling_.lower(slot, before_of(slot).last());
        }
    }
    settled_ = std::max(settled_, horizon);
    uint32_t slot;
    due_.clear();
    while (horizon > INT64_MIN && settling_.take(horizon - 1, slot)) due_.push_back(slot);
    while (expiring_.take(bound, slot)) due_.push_back(slot);
    for (size_t i = 0; i < due_.size(); ++i) {
        prefetch(i, due_.size(), [&](size_t k) { return due_[k]; }, first_row);
        if (windows_[due_[i]].live) settle(due_[i], bound, horizon);
    }
}

void Keyed::drop(int64_t bound) {
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        if (!windows_[slot].live) continue;
        RowTree tree = tree_of(slot);
        if (tree.size() && bound == INT64_MAX) {
            rows_ -= tree.size();
            tree.free_all();
        } else if (tree.size()) {
            rows_ -= tree.evict_until({bound + 1, kFirstTie}, false);
        }
        if (breaks_in(slot) && tree.size())
            breaks_of(slot).evict_until(tree.oldest(), true);  // nothing is before it
        else if (breaks_in(slot))
            breaks_of(slot).free_all();
        forget_before(slot);
        if (bound == INT64_MAX) open_.drop(slot);
        unsure_.push_back(slot);
    }
}

// --- what expired, out and in --------------------------------------------------------------------------

// Of each key of which something has expired: its last time, and in `words` the times and the record.
Anchors Keyed::expired(std::vector<int64_t>& words) const {
    std::vector<Anchor> found;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        if (!has_before(slot)) continue;
        Before before = before_of(slot);
        found.push_back({slot, false, before.last(), kFirstTie, -1});
        words.insert(words.end(), {before.first(), before.last()});
        std::vector<int64_t> tidy = plan_->tidied(before.record(), true);  // the same bytes whenever they are written
        words.insert(words.end(), tidy.begin(), tidy.end());
    }
    return current(std::move(found));
}

// Takes what `expired` returned, of keys without any rows; false: it is not such.
bool Keyed::load_expired(const KeyBatch& batch, const int64_t* words) {
    for (uint32_t slot : batch.slots) {
        Before before = make_before(slot);
        std::memcpy(before.words, words, before_words() * sizeof(int64_t));
        words += before_words();
        if (!plan_->sound(before.record()) || before.record()[kRows] < 1 || before.first() > before.last())
            return Plan::clear(before.record()), false;
        ++befores_;
        newest_ = rows_ || awaited_ || befores_ > 1 ? std::max(newest_, before.last()) : before.last();
        if (settling_.started()) settling_.lower(slot, before.last());
    }
    return true;
}

// --- proof ---------------------------------------------------------------------------------------------

// What expired is not there to be computed again, but the gaps are.
void Keyed::check_counted(uint32_t slot) {
    RowTree tree = tree_of(slot);
    size_t found = 0;
    bool some = has_before(slot);
    int64_t last = some ? before_of(slot).last() : 0;
    tree.each_leaf([&](auto* leaf) {
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
            RowPlace place = nodes_.place(leaf, i), upto;
            bool breaks = frame_.idle && some && apart(last, place.time, frame_.idle);
            bool known = last_break(slot, place, upto) && upto.time == place.time && upto.tie == place.tie;
            // The first row that is held may follow a gap to one that has gone.
            require(breaks == known || (known && !some), "a row that follows a gap is known as such");
            found += known;
            some = true;
            last = place.time;
        }
    });
    require(found == breaks_in(slot), "only rows follow gaps");
    if (breaks_in(slot)) tree::check(breaks_of(slot), [](auto*, uint32_t, uint32_t) {});
    if (has_before(slot)) {
        Before before = before_of(slot);
        require(frame_.has(Extent::unbounded), "what expired is kept for windows that are unbounded");
        require(before.first() <= before.last() && plan_->sound(before.record()), "what expired is a record");
        require(!tree.size() || before.last() <= tree.oldest().time, "what expired was before what is held");
    }
    if (tree.size() && settling_.started() && tree.newest().time >= settled_)
        require(settling_.has(slot, tree.newest().time), "a row that the horizon has not passed is on the agenda");
}

}  // namespace sash
