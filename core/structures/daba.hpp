// DABA, the De-Amortized Banker's Aggregator: worst-case O(1) combines per operation, in-order insert and evict only.
//
// Two-stacks with the flip spread over the operations before it is needed. Positions F <= L <= R <= A <= B <= E cut the
// queue into five ranges, and an element's aggregate covers:
//   [F, L)  from itself to B        done with the coming front
//   [L, R)  from itself to R        the old front, still to be extended
//   [R, A)  from R to itself        the old back, still to be turned round
//   [A, B)  from itself to B        the old back, turned round
//   [B, E)  from B to itself        the new back
// A query is the aggregate at F (x) the one at E - 1. Every operation makes one step of the turning; |[L, R)| = |[R, A)|
// keeps the two halves of the work in step. (Tangwongsan, Hirzel, Schneider, DEBS 2017.)
#pragma once

#include "structures/in_order.hpp"

namespace sash {

template <class Time, class Monoid>
class Daba : public InOrder<Time, Monoid> {
    using Base = InOrder<Time, Monoid>;
    using Base::front_, Base::monoid_, Base::queue_, Base::size_;

   public:
    using typename Base::Agg;
    using typename Base::Entry;
    static constexpr const char* name = "daba";

    Daba(Monoid monoid, const Options&) : Base(std::move(monoid)) {}

    bool insert(Time time, Entry entry) {
        this->require_order(time);
        bool tie = this->is_newest(time);
        if (tie && cut_.b < queue_.end()) return this->join_newest(cut_.b, entry);
        this->push_back(cut_.b, std::move(time), std::move(entry));
        size_ += !tie;
        step();
        return true;
    }

    bool evict(const Time& time) {
        if (!this->may_evict(time)) return false;
        evict_oldest();
        return true;
    }

    void evict_oldest() {
        this->pop_oldest([] {}, [this] { step(); });
    }

    Agg query() {
        Agg agg = queue_[front_].agg;
        if (cut_.b < queue_.end()) monoid_.append(agg, queue_[queue_.end() - 1].agg);
        return agg;
    }

    // Where the parts begin, as a number of elements from the oldest: for drawings.
    std::vector<std::pair<const char*, uint64_t>> cuts() const {
        return {{"l", cut_.l - front_}, {"r", cut_.r - front_}, {"a", cut_.a - front_}, {"b", cut_.b - front_}};
    }

    SASH_COLD void check() {
        uint64_t combines = monoid_.combines, e = queue_.end();
        this->check_times();
        require(front_ <= cut_.l && cut_.l <= cut_.r && cut_.r <= cut_.a && cut_.a <= cut_.b && cut_.b <= e,
                "the cuts stand in order");
        require(cut_.r - cut_.l == cut_.a - cut_.r, "as much is left to extend as to turn round");
        require(front_ == e || front_ < cut_.l, "the oldest element is ready");
        check_reach(front_, cut_.l, cut_.b);
        if (monoid_.regroups()) this->check_aggs(cut_.l, cut_.r, true, "the old front reaches to R");
        this->check_aggs(cut_.r, cut_.a, false, "the old back reaches from R");
        this->check_aggs(cut_.a, cut_.b, true, "what is turned round reaches to B");
        this->check_aggs(cut_.b, e, false, "the new back reaches from B");
        monoid_.combines = combines;
    }

    void begin() { before_ = {cut_, front_, queue_.end(), size_}; }
    void commit() { this->commit_queue(); }
    void rollback() {
        this->rollback_queue(before_.front, before_.end, before_.size);
        cut_ = before_.cut;
    }

   private:
    struct Cut {
        uint64_t l = 0, r = 0, a = 0, b = 0;
    };
    struct Before {
        Cut cut;
        uint64_t front, end;
        size_t size;
    };

    void step() {
        uint64_t e = queue_.end();
        if (front_ == cut_.b) {  // one element, or none: nothing to turn round
            cut_ = {e, e, e, e};
            return;
        }
        if (cut_.l == cut_.b) cut_ = {front_, cut_.b, e, e};  // the flip, for which all is ready
        if (cut_.l == cut_.r) {
            ++cut_.l, ++cut_.r, ++cut_.a;
        } else {
            extend();
            turn_round();
        }
    }

    // The element at L reaches to R; now it reaches to B.
    void extend() {
        this->save(cut_.l);
        Agg& agg = queue_[cut_.l].agg;
        monoid_.append(agg, queue_[cut_.a - 1].agg);
        if (cut_.a < cut_.b) monoid_.append(agg, queue_[cut_.a].agg);
        ++cut_.l;
    }

    // The element before A is reached from R; now it reaches to B.
    void turn_round() {
        this->save(cut_.a - 1);
        Agg agg = monoid_.of(queue_[cut_.a - 1].entry);
        if (cut_.a < cut_.b) monoid_.append(agg, queue_[cut_.a].agg);
        queue_[cut_.a - 1].agg = std::move(agg);
        --cut_.a;
    }

    SASH_COLD void check_reach(uint64_t from, uint64_t to, uint64_t end) {
        Fold<Monoid> fold(monoid_);
        for (uint64_t p = end; p-- > from;) {
            fold.prepend(monoid_.of(queue_[p].entry));
            if (p < to && monoid_.regroups())
                require(this->monoid().same(queue_[p].agg, fold.get()), "the front reaches to B");
        }
    }

    Cut cut_;
    Before before_{};
};

}  // namespace sash
