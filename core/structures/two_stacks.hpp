// Two-stacks: the folklore queue of two stacks, amortized O(1), worst case O(n), in-order insert and evict only.
//
//   front [front, back)   each element has the aggregate from itself to the end of the front
//   back  [back, end)     each element has the aggregate from the start of the back to itself
// A query is the first element's aggregate (x) the last one's. When the front is empty, the back is turned into it.
#pragma once

#include "structures/in_order.hpp"

namespace sash {

template <class Time, class Monoid>
class TwoStacks : public InOrder<Time, Monoid> {
    using Base = InOrder<Time, Monoid>;
    using Base::front_, Base::monoid_, Base::queue_, Base::size_;

   public:
    using typename Base::Agg;
    using typename Base::Entry;
    static constexpr const char* name = "two_stacks";

    TwoStacks(Monoid monoid, const Options&) : Base(std::move(monoid)) {}

    bool insert(Time time, Entry entry) {
        this->require_order(time);
        bool tie = this->is_newest(time);
        if (tie && back_ < queue_.end()) return this->join_newest(back_, entry);
        this->push_back(back_, std::move(time), std::move(entry));
        size_ += !tie;
        return true;
    }

    bool evict(const Time& time) {
        if (!this->may_evict(time)) return false;
        evict_oldest();
        return true;
    }

    void evict_oldest() {
        this->pop_oldest(
            [this] {
                if (front_ == back_) flip();
            },
            [] {});
    }

    Agg query() {
        if (front_ == back_) return queue_[queue_.end() - 1].agg;
        Agg agg = queue_[front_].agg;
        if (back_ < queue_.end()) monoid_.append(agg, queue_[queue_.end() - 1].agg);
        return agg;
    }

    // Where the parts begin, as a number of elements from the oldest: for drawings.
    std::vector<std::pair<const char*, uint64_t>> cuts() const { return {{"back", back_ - front_}}; }

    SASH_COLD void check() {
        uint64_t combines = monoid_.combines;
        this->check_times();
        require(front_ <= back_ && back_ <= queue_.end(), "the front ends where the back begins");
        this->check_aggs(front_, back_, true, "a front aggregate reaches to the end of the front");
        this->check_aggs(back_, queue_.end(), false, "a back aggregate reaches from the start of the back");
        monoid_.combines = combines;
    }

    void begin() { before_ = {front_, back_, queue_.end(), size_}; }
    void commit() { this->commit_queue(); }
    void rollback() {
        this->rollback_queue(before_.front, before_.end, before_.size);
        back_ = before_.back;
    }

   private:
    void flip() {
        uint64_t end = queue_.end();
        this->save(end - 1);
        queue_[end - 1].agg = monoid_.of(queue_[end - 1].entry);
        for (uint64_t p = end - 1; p-- > front_;) {
            this->save(p);
            Agg agg = queue_[p + 1].agg;
            monoid_.prepend_entry(queue_[p].entry, agg);
            queue_[p].agg = std::move(agg);
        }
        back_ = end;
    }

    struct Before {
        uint64_t front, back, end;
        size_t size;
    };
    uint64_t back_ = 0;
    Before before_{};
};

}  // namespace sash
