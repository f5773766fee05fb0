// The contract of all structures. Structures are templates <Time, Monoid>; nothing here is virtual.
//
//   name, any_order, ranges                        its name and what it supports, known at compile time
//   S(monoid, options)
//   size()  oldest()  newest()                     the ends of a window that is not empty
//   require_order(time)                            throws TooEarly if this time cannot be inserted
//   insert(time, entry) -> bool                    false: the merge with a present entry overflows; nothing has changed
//   evict(time) -> bool     evict_oldest()
//   query() -> Agg                                 of a window that is not empty
//   query(range, agg) -> bool                      where `ranges`; false: nothing in range
//   contains(time) -> bool
//   each_oldest(visit)                             visit(time, entry) for each part of the oldest time
//   scan(range, reverse, visit)                    visit(time, entry) -> bool, in time order, until it returns false; a
//                                                  structure may visit one time in several consecutive parts
//   check()                                        recomputes everything, throws on the first difference
//   updates_run_no_code                            true: insert and evict combine nothing but entries of one time, first;
//                                                  then it has evict_present, replace_present and push_front, which
//                                                  compare no times, and the engine undoes what it must
//   run(rows, row, stop, emit)                     where `runs`: some whole rounds of evict the oldest, insert, query,
//                                                  possibly none; `row` is then the next one, or the one whose entry or
//                                                  result failed; at a failed result its round stays done; where
//                                                  `runs_in_columns` instead, `emit` is a RecordOutput
//   begin()  commit()  rollback()                  false, and Monoid::may_throw: changes that happen together or not at all
//   visit(f)                                       every Ref that it owns, for the garbage collector
//   copying                                        the same structure, including its shape
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/any_time.hpp"
#include "monoids/monoids.hpp"

namespace sash {

struct Options {
    uint32_t min_arity = 4;      // paper, classic
    uint32_t leaf_capacity = 0;  // fiba; 0: chosen by the monoid
    uint32_t fanout = 0;
};

// A time range; an end that is not set is open. Times inside are after_start and before_stop.
template <class Time>
struct Range {
    std::optional<Time> start, stop;
    bool start_inside = true, stop_inside = true;

    bool after_start(const Time& time) const {
        return !start || (start_inside ? !less(time, *start) : less(*start, time));
    }
    bool before_stop(const Time& time) const { return !stop || (stop_inside ? !less(*stop, time) : less(time, *stop)); }
};

// Thrown by in-order structures before anything has changed; the window, which can convert times to Python, raises an
// OutOfOrderError for them.
struct TooEarly {
    AnyTime time, newest;
};
struct NotOldest {
    AnyTime time, oldest;
};

// A running aggregate that starts empty, so that no identity is ever combined.
template <class Monoid>
class Fold {
   public:
    using Agg = typename Monoid::Agg;
    using Entry = typename Monoid::Entry;

    explicit Fold(Monoid& monoid) : monoid_(monoid) {
        if constexpr (sizeof(Agg) <= 16) agg_ = Agg{};  // a wide one is not worth clearing
    }
    // The same in the memory of an aggregate that is not valid, where it has any.
    Fold(Monoid& monoid, Agg& stale) : Fold(monoid) {
        if constexpr (Monoid::in_place && !std::is_trivially_copyable_v<Agg>) agg_ = std::move(stale);
    }
    void append(const Agg& agg) {
        if (some_)
            monoid_->append(agg_, agg);
        else
            agg_ = agg, some_ = true;
    }
    void append_entry(const Entry& entry) {
        if (some_)
            monoid_->append_entry(agg_, entry);
        else
            agg_ = monoid_->of(entry), some_ = true;
    }
    void append_entries(const Entry* entries, size_t count) {
        if (count == 0) return;
        if (!some_) {
            append_entry(*entries);
            ++entries, --count;
        }
        if constexpr (Monoid::folds)
            monoid_->append_entries(agg_, entries, count);
        else
            for (size_t i = 0; i < count; ++i) monoid_->append_entry(agg_, entries[i]);
    }
    void append_aggs(const Agg* aggs, size_t count) {
        if (count == 0) return;
        if (!some_) {
            append(*aggs);
            ++aggs, --count;
        }
        if constexpr (Monoid::folds)
            monoid_->append_aggs(agg_, aggs, count);
        else
            for (size_t i = 0; i < count; ++i) monoid_->append(agg_, aggs[i]);
    }
    void prepend(const Agg& agg) {
        if (some_)
            monoid_->prepend(agg, agg_);
        else
            agg_ = agg, some_ = true;
    }
    void clear() { some_ = false; }
    bool some() const { return some_; }
    Agg& get() { return agg_; }

   private:
    AtWork<Monoid> monoid_;
    Agg agg_;
    bool some_ = false;
};

// The node sizes of `fiba` for a monoid.
template <class Monoid>
uint32_t best_leaf_capacity(const Monoid& monoid) {
    if constexpr (Monoid::is_erased) return monoid.best_leaf_capacity();
    return Monoid::leaf_capacity;
}
template <class Monoid>
uint32_t best_fanout(const Monoid& monoid) {
    if constexpr (Monoid::is_erased) return monoid.best_fanout();
    return Monoid::fanout;
}

// Releases the object in a slot, if its type can own one.
template <class T>
void clear_slot(T& slot) {
    if constexpr (!std::is_trivially_destructible_v<T>) clear(slot);
}

template <class Value, class Visit>
void visit_if_ref(const Value& value, Visit& visit) {
    if constexpr (std::is_same_v<Value, Ref>) {
        if (value) visit(value);
    } else if constexpr (std::is_same_v<Value, AnyTime>) {
        if (value.object) visit(value.object);
    }
}

}  // namespace sash
