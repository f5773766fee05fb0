// DABA Lite, the De-Amortized Banker's Aggregator: worst-case O(1) combines per operation, in-order insert and evict only.
//
// Two-stacks with the flip spread over the operations before it is needed. Positions F <= L <= R <= A <= B <= E cut the
// queue into five ranges. In three of them an element has a partial aggregate:
//   [F, L)  from itself to B        done with the coming front
//   [L, R)  from itself to R        the old front, still to be extended
//   [R, A)  none                    the old back, still to be turned round
//   [A, B)  from itself to B        the old back, turned round
//   [B, E)  none                    the new back
// and two aggregates stand for all the rest: `rest`, of [R, B), and the back's total, of [B, E). A flip turns the total
// into the rest; R and B then stay until the next one, so the rest extends every element of [L, R) by one combine. A
// query is the partial at F (x) the total. Every operation makes one step of the turning; |[L, R)| = |[R, A)| keeps the
// two halves of the work in step. (Tangwongsan, Hirzel, Schneider, VLDB Journal 2021.)
#pragma once

#include "structures/in_order.hpp"

namespace sash {

template <class Time, class Monoid>
class Daba : public InOrder<Time, Monoid> {
    using Base = InOrder<Time, Monoid>;
    using Base::front_, Base::monoid_, Base::queue_, Base::size_, Base::total_;

   public:
    using typename Base::Agg;
    using typename Base::Entry;
    static constexpr const char* name = "daba";

    Daba(Monoid monoid, const Options&) : Base(std::move(monoid)) {}

    bool insert(Time time, Entry entry) {
        this->require_order(time);
        bool tie = this->is_newest(time);
        if (tie && cut_.b < queue_.end()) return this->join_newest(entry);
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
        Agg agg = queue_.partial(front_);
        if (cut_.b < queue_.end()) monoid_.append(agg, total_);
        return agg;
    }

    // Rounds whose queries read partials that are done; their steps of the turning come after them, all of one kind.
    template <class Rows, class Emit>
    void run(const Rows& rows, size_t& row, size_t stop, Emit&& emit) {
        if (front_ == cut_.l || cut_.b == queue_.end()) return;
        uint64_t steps = (cut_.l < cut_.r ? cut_.r : cut_.b) - cut_.l;
        uint64_t most = std::min(cut_.l - front_ - 1, steps / 2);
        if (cut_.l < cut_.r) fetch();
        this->run_rounds(rows, row, stop, most, std::forward<Emit>(emit), [this](uint64_t done) {
            if (cut_.l < cut_.r)
                work(2 * done);
            else
                shift(2 * done);
        });
    }

    template <class Visit>
    void visit(Visit&& f) const {
        Base::visit(f);
        visit_if_ref(rest_, f);
        visit_if_ref(turned_, f);
    }

    // Where the parts begin, as a number of elements from the oldest: for drawings.
    std::vector<std::pair<const char*, uint64_t>> cuts() const {
        return {{"l", cut_.l - front_}, {"r", cut_.r - front_}, {"a", cut_.a - front_}, {"b", cut_.b - front_}};
    }
    bool has_partial(uint64_t p) const { return p < cut_.r || (p >= cut_.a && p < cut_.b); }
    template <class Visit>
    void each_total(Visit&& visit) const {
        if (cut_.l < cut_.r) visit("rest", rest_);
        if (cut_.b < queue_.end()) visit("back", total_);
    }

    SASH_COLD void check() {
        uint64_t combines = monoid_.combines, e = queue_.end();
        this->check_times();
        require(front_ <= cut_.l && cut_.l <= cut_.r && cut_.r <= cut_.a && cut_.a <= cut_.b && cut_.b <= e,
                "the cuts stand in order");
        require(cut_.r - cut_.l == cut_.a - cut_.r, "as much is left to extend as to turn round");
        require(front_ == e || front_ < cut_.l, "the oldest element is ready");
        if (monoid_.regroups()) {
            this->check_partials(front_, cut_.l, cut_.b, "the front reaches to B");
            this->check_partials(cut_.l, cut_.r, cut_.r, "the old front reaches to R");
        }
        this->check_partials(cut_.a, cut_.b, cut_.b, "what is turned round reaches to B");
        if (cut_.l < cut_.r) this->check_total(rest_, cut_.r, cut_.b, "the rest is the aggregate from R to B");
        if (cut_.l < cut_.r && cut_.a < cut_.b)
            require(this->monoid().same(turned_, queue_.partial(cut_.a)), "the last partial that was turned round");
        this->check_total(total_, cut_.b, e, "the total is the aggregate of the new back");
        monoid_.combines = combines;
    }

    void begin() { before_ = {cut_, front_, queue_.end(), size_, total_, rest_, turned_}; }
    void commit() {
        this->commit_queue();
        before_ = {};
    }
    void rollback() {
        this->rollback_queue(before_.front, before_.end, before_.size);
        cut_ = before_.cut;
        total_ = std::move(before_.total);
        rest_ = std::move(before_.rest);
        turned_ = std::move(before_.turned);
    }

   private:
    struct Cut {
        uint64_t l = 0, r = 0, a = 0, b = 0;
    };
    struct Before {
        Cut cut;
        uint64_t front, end;
        size_t size;
        Agg total, rest, turned;
    };

    void step() {
        if (front_ == cut_.b) return restart();
        if (cut_.l == cut_.b) flip();
        if (cut_.l == cut_.r)
            shift(1);
        else
            work(1);
    }

    // One element, or none: nothing to turn round.
    SASH_RARE void restart() {
        uint64_t e = queue_.end();
        if (cut_.b < e) {
            this->save(e - 1);
            queue_.put_partial(e - 1, total_);
        }
        cut_ = {e, e, e, e};
        clear_slot(total_);
    }

    // What the steps after a run will touch, far from the ends that its rounds do: forwards from L, backwards from A.
    SASH_FETCH void fetch() const {
        constexpr uint64_t kLine = 8, kLines = 4;
        for (uint64_t i = 0; i < kLines; ++i) {
            queue_.fetch(std::min(cut_.l + i * kLine, cut_.r), false);
            queue_.fetch(cut_.a - 1 - std::min(i * kLine, cut_.a - 1 - cut_.r), true);
        }
    }

    // All is ready: the front reaches to B, and is as long as the back.
    SASH_RARE void flip() {
        uint64_t e = queue_.end();
        cut_ = {front_, cut_.b, e, e};
        rest_ = std::move(total_);
        clear_slot(total_);
    }

    void shift(uint64_t count) { cut_.l += count, cut_.r += count, cut_.a += count; }

    void work(uint64_t count) {
        AtWork<Monoid> monoid(monoid_);
        this->extend(cut_.l, cut_.l + count, rest_, monoid);
        cut_.l += count;
        uint64_t to = cut_.a;
        if (to == cut_.b) turned_ = this->turn_first(--to, monoid);
        cut_.a -= count;
        this->turn_round(cut_.a, to, turned_, monoid);
        if (cut_.l < cut_.r) return;
        clear_slot(rest_);
        clear_slot(turned_);
    }

    Cut cut_;
    Agg rest_{}, turned_{};  // while there is work: the aggregate of [R, B), and the partial at A
    Before before_{};
};

}  // namespace sash
