// The common base of two_stacks and daba: a queue of timed elements that grows at the back and shrinks at the front.
//
// A value that arrives at the newest time joins the newest element if that costs O(1), and otherwise becomes another
// element of the same time. So a time may span a few consecutive elements, which are evicted together.
#pragma once

#include <string>
#include <vector>

#include "structures/block_queue.hpp"
#include "structures/contract.hpp"

namespace sash {

template <class TimeType, class MonoidType>
class InOrder {
   public:
    using Time = TimeType;
    using Monoid = MonoidType;
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    static constexpr bool any_order = false;
    static constexpr bool ranges = false;
    static constexpr bool updates_run_no_code = false;

    Monoid& monoid() { return monoid_; }
    size_t size() const { return size_; }
    uint64_t spent() const { return 0; }
    const Time& oldest() const { return queue_[front_].time; }
    const Time& newest() const { return queue_[queue_.end() - 1].time; }

    void require_order(const Time& time) const {
        if (size_ && less(time, newest())) throw TooEarly{AnyTime(time), AnyTime(newest())};
    }

    template <class Visit>
    void each_oldest(Visit&& visit) const {
        for (uint64_t p = front_; p < queue_.end() && !less(oldest(), queue_[p].time); ++p)
            visit(queue_[p].time, queue_[p].entry);
    }

    bool contains(const Time& time) const {
        uint64_t p = lower_bound(time);
        return p < queue_.end() && !less(time, queue_[p].time);
    }

    template <class Visit>
    void scan(const Range<Time>& range, bool reverse, Visit&& visit) const {
        uint64_t from = front_, to = queue_.end();
        if (range.start) from = range.start_inside ? lower_bound(*range.start) : upper_bound(*range.start);
        if (range.stop) to = range.stop_inside ? upper_bound(*range.stop) : lower_bound(*range.stop);
        while (from < to) {
            const Element& element = queue_[reverse ? --to : from++];
            if (!visit(element.time, element.entry)) return;
        }
    }

    // For drawings: visit(time, entry, agg) for each element, oldest first; agg is a pointer, null where there is none.
    template <class Visit>
    void each_element(Visit&& visit) const {
        for (uint64_t p = front_; p < queue_.end(); ++p) visit(queue_[p].time, queue_[p].entry, &queue_[p].agg);
    }
    // visit(part, agg) for each aggregate that is one of a whole part: none here.
    template <class Visit>
    void each_total(Visit&&) const {}

    template <class Visit>
    void visit(Visit&& f) const {
        for (uint64_t p = queue_.begin(); p < queue_.end(); ++p) {
            visit_if_ref(queue_[p].time, f);
            visit_if_ref(queue_[p].entry, f);
            visit_if_ref(queue_[p].agg, f);
        }
    }

   protected:
    struct Element {
        Time time;
        Entry entry;
        Agg agg;
    };
    struct Saved {
        uint64_t position;
        Entry entry;
        Agg agg;
    };

    explicit InOrder(Monoid monoid) : monoid_(std::move(monoid)) {}

    // Whether the time is present, entirely at the front, and can be evicted.
    bool may_evict(const Time& time) const {
        if (!contains(time)) return false;
        if (less(oldest(), time)) throw NotOldest{AnyTime(time), AnyTime(oldest())};
        return true;
    }

    // Every element of the oldest time leaves; `before` and `after` run around each one.
    template <class Before, class After>
    void pop_oldest(Before&& before, After&& after) {
        Time time = oldest();
        do {
            before();
            ++front_;
            if constexpr (!Monoid::may_throw) queue_.drop_front(front_);
            after();
        } while (front_ < queue_.end() && !less(time, queue_[front_].time));
        --size_;
    }

    SASH_COLD void check_times() const {
        size_t times = 0;
        require(queue_.begin() == front_, "nothing stands before the front");
        for (uint64_t p = front_; p < queue_.end(); ++p) {
            bool fresh = p == front_ || less(queue_[p - 1].time, queue_[p].time);
            require(fresh || !less(queue_[p].time, queue_[p - 1].time), "times ascend");
            times += fresh;
        }
        require(times == size_, "the size is the number of times");
    }

    // The aggregates of [from, to), each recomputed: from its element to the end (suffix) or from the start to it.
    SASH_COLD void check_aggs(uint64_t from, uint64_t to, bool suffix, const char* what) {
        Fold<Monoid> fold(monoid_);
        for (uint64_t i = 0; i < to - from; ++i) {
            const Element& element = queue_[suffix ? to - 1 - i : from + i];
            suffix ? fold.prepend(monoid_.of(element.entry)) : fold.append_entry(element.entry);
            require(monoid().same(element.agg, fold.get()), what);
        }
    }

    bool is_newest(const Time& time) const { return size_ && !less(newest(), time); }

    uint64_t lower_bound(const Time& time) const {
        return partition([&](const Time& t) { return less(t, time); });
    }
    uint64_t upper_bound(const Time& time) const {
        return partition([&](const Time& t) { return !less(time, t); });
    }

    // The back is a stack whose elements have the aggregate from `back` to themselves.
    void push_back(uint64_t back, Time time, Entry entry) {
        Agg agg;
        if (back < queue_.end()) {
            agg = queue_[queue_.end() - 1].agg;
            monoid_.append_entry(agg, entry);
        } else {
            agg = monoid_.of(entry);
        }
        queue_.push({std::move(time), std::move(entry), std::move(agg)});
    }

    // The newest element is in the back, and a value of its time joins it.
    bool join_newest(uint64_t back, const Entry& entry) {
        uint64_t last = queue_.end() - 1;
        save(last);
        if (!monoid_.merge(queue_[last].entry, entry)) return false;
        Agg agg = back < last ? queue_[last - 1].agg : monoid_.of(queue_[last].entry);
        if (back < last) monoid_.append_entry(agg, queue_[last].entry);
        queue_[last].agg = std::move(agg);
        return true;
    }

    void save(uint64_t position) {
        if constexpr (Monoid::may_throw) undo_.push_back({position, queue_[position].entry, queue_[position].agg});
    }
    void commit_queue() {
        undo_.clear();
        queue_.drop_front(front_);
    }
    void rollback_queue(uint64_t front, uint64_t end, size_t size) {
        for (size_t i = undo_.size(); i-- > 0;) {
            queue_[undo_[i].position].entry = std::move(undo_[i].entry);
            queue_[undo_[i].position].agg = std::move(undo_[i].agg);
        }
        undo_.clear();
        queue_.drop_back(end);
        front_ = front;
        size_ = size;
    }

    Monoid monoid_;
    BlockQueue<Element> queue_;
    uint64_t front_ = 0;  // ahead of queue_.begin() within a change that may be undone
    size_t size_ = 0;     // times, not elements
    std::vector<Saved> undo_;

   private:
    template <class Before>
    uint64_t partition(Before&& before) const {
        uint64_t low = front_, high = queue_.end();
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (before(queue_[middle].time))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
};

}  // namespace sash
