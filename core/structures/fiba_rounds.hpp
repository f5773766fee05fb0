// Many rounds of evict, insert and query within the finger leaves of `fiba`.
//
// From round to round only the prefix changes and each query reads another suffix, so what they share stays in
// registers: an append costs a store and a few joins, a late row within the right finger a shift more. Records are too
// large for that: each of their aggregates goes through the rounds by itself.
#pragma once

#include "structures/fiba_ends.hpp"

namespace sash::fiba {

// Where an entry belongs after the first of [begin, end), and not at its end; kNone: elsewhere, or its time is present.
// The end is near, as a rule.
template <class Time>
uint32_t slot_inside(const Time* times, uint32_t begin, uint32_t end, const Time& time) {
    constexpr uint32_t kStep = 8;
    if (!less(times[begin], time)) return kNone;
    uint32_t slot = end;
    while (slot - begin > kStep && !less(times[slot - kStep], time)) slot -= kStep;
    if (slot - begin > kStep) {
        uint32_t later = 0;  // counted, because a loop that ends somewhere is hard to predict
        for (uint32_t i = 1; i < kStep; ++i) later += !less(times[slot - i], time);
        slot -= later;
    } else {
        while (!less(times[slot - 1], time)) --slot;
    }
    return slot < end && !less(time, times[slot]) ? kNone : slot;
}

template <class T>
void shift(T* items, uint32_t from, uint32_t to) {
    std::memmove(items + from + 1, items + from, (to - from) * sizeof(T));
}

template <class Monoid>
void append_entries(AtWork<Monoid>& monoid, typename Monoid::Agg& agg, const typename Monoid::Entry* entries,
                    uint32_t count) {
    if constexpr (Monoid::folds)
        monoid->append_entries(agg, entries, count);
    else
        for (uint32_t i = 0; i < count; ++i) monoid->append_entry(agg, entries[i]);
}

// The rounds of a run, which become part of the fingers at its end, also if a row or a result fails.
template <class Time, class Monoid>
struct Ends<Time, Monoid>::RunOfRounds {
    Ends& ends;
    LeafNode *left, *right;
    size_t& row;
    uint32_t& appends;
    uint32_t most, done = 0, shown = 0;
    // What is added to a suffix: the prefix, and with it the middle, if order does not matter and rounds are many.
    bool middle_some = ends.spines_.height() > 0 && ends.middle_some_;
    bool with_middle = middle_some && Monoid::commutes && most >= 16, middle_apart = middle_some && !with_middle;
    Agg rest = start();
    const Agg* suffix = ends.suffix_.data() + left->begin + 1;

    Agg start() {
        Agg agg = ends.whole_prefix(right);
        if (with_middle) ends.monoid_.prepend(ends.middle_, agg);
        return agg;
    }
    ~RunOfRounds() {
        left->begin += done;
        row += shown;
        ends.prefix_to_ = right->end;
        if (!Monoid::commutes) ends.stack_to_ = right->end;
        if (!with_middle) ends.total_ = rest;
    }
};

template <class Time, class Monoid>
template <class Rows, class Emit>
void Ends<Time, Monoid>::run(const Rows& rows, size_t& row, size_t stop, uint32_t& appends, Emit emit) {
    LeafNode *left = left_leaf(), *right = right_leaf();
    if (left->count() < 2) return;
    repair(left, right);
    if (left->begin + 1 >= suffix_to_ || prefix_from_ == prefix_to_) return;
    size_t most = std::min(capacity_ - right->end, suffix_to_ - left->begin - 1);
    RunOfRounds run{*this, left, right, row, appends, static_cast<uint32_t>(std::min(most, stop - row))};
    AtWork<Monoid> monoid(monoid_);
    while (run.done < run.most) {
        append_rounds(run, rows, monoid, emit);
        if (run.done == run.most || !late_rounds(run, rows, monoid, emit)) return;
    }
}

// Rounds whose rows are newer than all others.
template <class Time, class Monoid>
template <class Rows, class Emit>
void Ends<Time, Monoid>::append_rounds(RunOfRounds& run, const Rows& rows, AtWork<Monoid>& monoid, Emit& emit) {
    const size_t row = run.row;
    const uint32_t first = run.done, most = run.most, end = run.right->end;
    const Agg *const suffix = run.suffix, middle = middle_;
    Time *const times = run.right->times() + end, newest = times[-1];
    Entry* const entries = run.right->entries + end;
    Agg* const prefix = prefix_.data() + end;
    Agg rest = run.rest;
    uint32_t i = first;
    bool stored = false;  // the entry of round i, whose result may fail
    auto leave = [&] {
        uint32_t appended = i + stored - first;
        run.shown = i;
        run.done += appended;
        run.right->end += appended;
        run.appends += appended;
        run.rest = rest;
        if (run.with_middle) append_entries(monoid, total_, entries, appended);
    };
    try {
        for (uint32_t put = 0; i < most; ++i, ++put) {
            Time time = rows.time(row + i);
            if (!less(newest, time)) break;
            Entry entry = rows.entry(row + i, time);
            times[put] = newest = time;
            entries[put] = entry;
            monoid->append_entry(rest, entry);
            if constexpr (!Monoid::commutes) prefix[put] = rest;
            Agg agg = suffix[i];
            if (run.middle_apart) monoid->append(agg, middle);
            monoid->append(agg, rest);
            stored = true;
            emit(row + i, agg);
            stored = false;
        }
    } catch (...) {
        leave();
        throw;
    }
    leave();
}

// Rounds whose rows belong among the entries of the right finger; returns false at one that does not.
template <class Time, class Monoid>
template <class Rows, class Emit>
bool Ends<Time, Monoid>::late_rounds(RunOfRounds& run, const Rows& rows, AtWork<Monoid>& monoid, Emit& emit) {
    Time* const times = run.right->times();
    Entry* const entries = run.right->entries;
    const Time newest = run.right->back();
    while (run.done < run.most) {
        const uint32_t end = run.right->end;
        Time time = rows.time(run.row + run.done);
        if (less(newest, time)) return true;
        uint32_t slot = slot_inside(times, prefix_from_, end, time);
        if (slot == kNone) return false;
        Entry entry = rows.entry(run.row + run.done, time);
        shift(times, slot, end);
        shift(entries, slot, end);
        times[slot] = time;
        entries[slot] = entry;
        run.right->end = end + 1;
        Agg agg = run.suffix[run.done++];
        if constexpr (Monoid::commutes) {
            monoid->append_entry(run.rest, entry);
            if (run.with_middle) monoid->append_entry(total_, entry);
            stack_to_ = std::min(stack_to_, slot);
        } else {
            // Not in the run's own member: each addition would wait for the last one to be stored.
            Agg* const prefix = prefix_.data();
            Agg rest = prefix[slot - 1];
            for (; slot <= end; ++slot) {
                monoid->append_entry(rest, entries[slot]);
                prefix[slot] = rest;
            }
            run.rest = rest;
        }
        if (run.middle_apart) monoid->append(agg, middle_);
        monoid->append(agg, run.rest);
        emit(run.row + run.done - 1, agg);
        run.shown = run.done;
    }
    return true;
}

// Rounds of records whose rows are newer than all others. First all rows are stored, and then each aggregate goes through
// all rounds, with its state in registers.
template <class Time, class Monoid>
template <class Rows, class Output>
void Ends<Time, Monoid>::run_in_columns(const Rows& rows, size_t& row, size_t stop, uint32_t& appends, Output& out) {
    LeafNode *left = left_leaf(), *right = right_leaf();
    if (left->count() < 2) return;
    repair(left, right);
    if (left->begin + 1 >= suffix_to_ || prefix_from_ == prefix_to_) return;
    size_t most = std::min<size_t>(std::min(capacity_ - right->end, suffix_to_ - left->begin - 1), stop - row);
    const Agg* suffixes = suffix_.data() + left->begin + 1;
    const Agg* middle = spines_.height() > 0 && middle_some_ ? &middle_ : nullptr;
    // An older suffix has seen all that a newer one has.
    if (!monoid_.runs(suffixes[most - 1], middle, total_)) return;

    size_t done = 0;
    Time *const times = right->times() + right->end, newest = times[-1];
    for (; done < most; ++done) {
        Time time = rows.time(row + done);
        if (!less(newest, time)) break;
        times[done] = newest = time;
    }
    done = monoid_.read_rows(rows.values(), row, right->entries + right->end, done);
    monoid_.run(suffixes, done, middle, total_, rows.values(), row, out);
    monoid_.clear_rows(left->entries + left->begin, done);
    left->begin += static_cast<uint32_t>(done);
    right->end += static_cast<uint32_t>(done);
    prefix_to_ = right->end;
    appends += static_cast<uint32_t>(done);
    row += done;
}

}  // namespace sash::fiba
