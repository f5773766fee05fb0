// Two-Stacks Lite: the folklore queue of two stacks, amortized O(1), worst case O(n), in-order insert and evict only.
//
//   front [front, back)   each element has the aggregate from itself to the end of the front
//   back  [back, end)     its elements have one aggregate, that of all of them
// A query is the first element's aggregate (x) the back's. When the front is empty, the back is turned into it.
// (Tangwongsan, Hirzel, Schneider, VLDB Journal 2021.)
#pragma once

#include "structures/in_order.hpp"

namespace sash {

template <class Time, class Monoid>
class TwoStacks : public InOrder<Time, Monoid> {
    using Base = InOrder<Time, Monoid>;
    using Base::front_, Base::monoid_, Base::queue_, Base::size_, Base::total_;

   public:
    using typename Base::Agg;
    using typename Base::Entry;
    static constexpr const char* name = "two_stacks";

    TwoStacks(Monoid monoid, const Options&) : Base(std::move(monoid)) {}

    bool insert(Time time, Entry entry) {
        this->require_order(time);
        bool tie = this->is_newest(time);
        if (tie && back_ < queue_.end()) return this->join_newest(entry);
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
        if (front_ == back_) return total_;
        Agg agg = queue_.partial(front_);
        if (back_ < queue_.end()) monoid_.append(agg, total_);
        return agg;
    }

    // Rounds that pop the front and grow the back.
    template <class Rows, class Emit>
    void run(const Rows& rows, size_t& row, size_t stop, Emit&& emit) {
        if (front_ == back_ || back_ == queue_.end()) return;
        this->run_rounds(rows, row, stop, back_ - front_ - 1, std::forward<Emit>(emit), [](uint64_t) {});
    }

    // Where the parts begin, as a number of elements from the oldest: for drawings.
    std::vector<std::pair<const char*, uint64_t>> cuts() const { return {{"back", back_ - front_}}; }
    bool has_partial(uint64_t p) const { return p < back_; }
    template <class Visit>
    void each_total(Visit&& visit) const {
        if (back_ < queue_.end()) visit("back", total_);
    }

    SASH_COLD void check() {
        uint64_t combines = monoid_.combines;
        this->check_times();
        require(front_ <= back_ && back_ <= queue_.end(), "the front ends where the back begins");
        this->check_partials(front_, back_, back_, "a front aggregate reaches to the end of the front");
        this->check_total(total_, back_, queue_.end(), "the back's aggregate is that of its elements");
        monoid_.combines = combines;
    }

    void begin() { before_ = {front_, back_, queue_.end(), size_, total_}; }
    void commit() {
        this->commit_queue();
        before_.total = Agg{};
    }
    void rollback() {
        this->rollback_queue(before_.front, before_.end, before_.size);
        back_ = before_.back;
        total_ = std::move(before_.total);
    }

   private:
    SASH_RARE void flip() {
        AtWork<Monoid> monoid(monoid_);
        uint64_t last = queue_.end() - 1;
        Agg agg = this->turn_first(last, monoid);
        this->turn_round(front_, last, agg, monoid);
        back_ = queue_.end();
        clear_slot(total_);
    }

    struct Before {
        uint64_t front, back, end;
        size_t size;
        Agg total;
    };
    uint64_t back_ = 0;
    Before before_{};
};

}  // namespace sash
