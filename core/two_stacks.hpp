// Two-stacks: the folklore queue of two stacks, amortised O(1), worst case O(n), in-order insert and evict only.
//
//   front [front, back)   each element holds the aggregate from itself to the end of the front
//   back  [back, end)     one running aggregate
// A query is the first element's aggregate (x) the running one. When the front is empty, the back is turned into it.
#pragma once

#include "in_order.hpp"

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
        if (tie && back_ < queue_.end()) return join_newest(entry);
        if (back_ < queue_.end()) {
            monoid_.append_entry(back_agg_, entry);
        } else {
            back_agg_ = monoid_.of(entry);
        }
        queue_.push({std::move(time), std::move(entry), Agg{}});
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
        if (front_ == back_) return back_agg_;
        Agg agg = queue_[front_].agg;
        if (back_ < queue_.end()) monoid_.append(agg, back_agg_);
        return agg;
    }

    void check() {
        uint64_t combines = monoid_.combines;
        this->check_times();
        require(front_ <= back_ && back_ <= queue_.end(), "the front ends where the back begins");
        this->check_aggs(front_, back_, true, "a front aggregate reaches to the end of the front");
        Fold<Monoid> fold(monoid_);
        for (uint64_t p = back_; p < queue_.end(); ++p) fold.append_entry(queue_[p].entry);
        if (fold.some()) require(Monoid::same(back_agg_, fold.get()), "the running aggregate is that of the back");
        monoid_.combines = combines;
    }

    template <class Visit>
    void visit(Visit&& f) const {
        Base::visit(f);
        visit_if_ref(back_agg_, f);
    }

    void begin() { before_ = {front_, back_, queue_.end(), size_, back_agg_}; }
    void commit() {
        before_.back_agg = Agg{};
        this->commit_queue();
    }
    void rollback() {
        this->rollback_queue(before_.front, before_.end, before_.size);
        back_ = before_.back;
        back_agg_ = std::move(before_.back_agg);
    }

   private:
    bool join_newest(const Entry& entry) {
        uint64_t last = queue_.end() - 1;
        this->save(last);
        if (!monoid_.merge(queue_[last].entry, entry)) return false;
        monoid_.append_entry(back_agg_, entry);
        return true;
    }

    void flip() {
        uint64_t end = queue_.end();
        queue_[end - 1].agg = monoid_.of(queue_[end - 1].entry);
        for (uint64_t p = end - 1; p-- > front_;) {
            Agg agg = queue_[p + 1].agg;
            monoid_.prepend_entry(queue_[p].entry, agg);
            queue_[p].agg = std::move(agg);
        }
        back_ = end;
        if constexpr (!std::is_trivially_destructible_v<Agg>) back_agg_ = Agg{};  // it holds what may soon be evicted
    }

    struct Before {
        uint64_t front, back, end;
        size_t size;
        Agg back_agg;
    };
    uint64_t back_ = 0;
    Agg back_agg_{};
    Before before_{};
};

}  // namespace sash
