// The common base of two_stacks and daba: a queue of timed elements that grows at the back and shrinks at the front.
//
// Both are in their Lite forms: the elements at the back, from a position B on, share one aggregate, and each of the
// others has at most one partial aggregate. The entries stay, because a window can be iterated and saved.
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
    const Time& oldest() const { return queue_.time(front_); }
    const Time& newest() const { return queue_.time(queue_.end() - 1); }

    void require_order(const Time& time) const {
        if (size_ && less(time, newest())) throw TooEarly{AnyTime(time), AnyTime(newest())};
    }

    template <class Visit>
    void each_oldest(Visit&& visit) const {
        for (uint64_t p = front_; p < queue_.end() && !less(oldest(), queue_.time(p)); ++p)
            visit(queue_.time(p), queue_.entry(p));
    }

    bool contains(const Time& time) const {
        uint64_t p = lower_bound(time);
        return p < queue_.end() && !less(time, queue_.time(p));
    }

    template <class Visit>
    void scan(const Range<Time>& range, bool reverse, Visit&& visit) const {
        uint64_t from = front_, to = queue_.end();
        if (range.start) from = range.start_inside ? lower_bound(*range.start) : upper_bound(*range.start);
        if (range.stop) to = range.stop_inside ? upper_bound(*range.stop) : lower_bound(*range.stop);
        while (from < to) {
            uint64_t p = reverse ? --to : from++;
            if (!visit(queue_.time(p), queue_.entry(p))) return;
        }
    }

    // For drawings: visit(time, entry, p) for each element, oldest first, and its partial if it has one.
    template <class Visit>
    void each_element(Visit&& visit) const {
        for (uint64_t p = front_; p < queue_.end(); ++p) visit(queue_.time(p), queue_.entry(p), p);
    }
    Agg partial(uint64_t p) const { return queue_.partial(p); }

    template <class Visit>
    void visit(Visit&& f) const {
        for (uint64_t p = queue_.begin(); p < queue_.end(); ++p) {
            visit_if_ref(queue_.time(p), f);
            visit_if_ref(queue_.entry(p), f);
            if (queue_.has_partials(p)) visit_if_ref(queue_.partial(p), f);
        }
        visit_if_ref(total_, f);
    }

    // Whether many rounds can be run at once: nothing is shared, and nothing but a row or a result can fail.
    static constexpr bool runs = !Monoid::may_throw && std::is_trivially_copyable_v<Time> &&
                                 std::is_trivially_copyable_v<Entry> && std::is_trivially_copyable_v<Agg>;

   protected:
    static constexpr uint64_t kBlock = BlockQueue<Time, Monoid>::kBlock;
    struct Saved {
        uint64_t position;
        Entry entry;
        std::optional<Agg> partial;
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
        } while (front_ < queue_.end() && !less(time, queue_.time(front_)));
        --size_;
    }

    SASH_COLD void check_times() const {
        size_t times = 0;
        require(queue_.begin() == front_, "nothing stands before the front");
        for (uint64_t p = front_; p < queue_.end(); ++p) {
            bool fresh = p == front_ || less(queue_.time(p - 1), queue_.time(p));
            require(fresh || !less(queue_.time(p), queue_.time(p - 1)), "times ascend");
            times += fresh;
        }
        require(times == size_, "the size is the number of times");
    }

    // The partial of each element of [from, to) reaches from itself to `end`.
    SASH_COLD void check_partials(uint64_t from, uint64_t to, uint64_t end, const char* what) {
        Fold<Monoid> fold(monoid_);
        for (uint64_t p = end; p-- > from;) {
            fold.prepend(monoid_.of(queue_.entry(p)));
            if (p < to) require(monoid().same(queue_.partial(p), fold.get()), what);
        }
    }
    // An aggregate is that of [from, to).
    SASH_COLD void check_total(const Agg& agg, uint64_t from, uint64_t to, const char* what) {
        if (from == to || !monoid_.regroups()) return;
        Fold<Monoid> fold(monoid_);
        for (uint64_t p = from; p < to; ++p) fold.append_entry(queue_.entry(p));
        require(monoid().same(agg, fold.get()), what);
    }

    bool is_newest(const Time& time) const { return size_ && !less(newest(), time); }

    uint64_t lower_bound(const Time& time) const {
        return partition([&](const Time& t) { return less(t, time); });
    }
    uint64_t upper_bound(const Time& time) const {
        return partition([&](const Time& t) { return !less(time, t); });
    }

    void push_back(uint64_t back, Time time, Entry entry) {
        if (back < queue_.end())
            monoid_.append_entry(total_, entry);
        else
            total_ = monoid_.of(entry);
        queue_.push(std::move(time), std::move(entry));
    }

    // The newest element is in the back, and a value of its time joins it.
    bool join_newest(const Entry& entry) {
        uint64_t last = queue_.end() - 1;
        save(last);
        if (!monoid_.merge(queue_.entry(last), entry)) return false;
        monoid_.append_entry(total_, entry);
        return true;
    }

    // --- partial aggregates ----------------------------------------------------------------------------

    // Gives an element its own aggregate as its partial.
    Agg turn_first(uint64_t p, AtWork<Monoid>& monoid) {
        save(p);
        Agg agg = monoid->of(queue_.entry(p));
        queue_.put_partial(p, agg);
        return agg;
    }

    // Gives the elements of [from, to) partials that reach as far as `agg`, the partial at `to`; it becomes that at `from`.
    void turn_round(uint64_t from, uint64_t to, Agg& agg, AtWork<Monoid>& monoid) {
        while (from < to) {
            uint64_t begin = std::max(from, (to - 1) / kBlock * kBlock), base = begin / kBlock * kBlock;
            save(begin, to);
            const Entry* entries = queue_.block(begin).entries;
            queue_.partials(begin).turn(begin - base, to - base, entries, agg, monoid);
            to = begin;
        }
    }

    // Adds an aggregate to the partials of [from, to).
    void extend(uint64_t from, uint64_t to, const Agg& agg, AtWork<Monoid>& monoid) {
        while (from < to) {
            uint64_t base = from / kBlock * kBlock, end = std::min(to, base + kBlock);
            save(from, end);
            queue_.partials(from).extend(from - base, end - base, agg, monoid);
            from = end;
        }
    }

    // --- many rounds -----------------------------------------------------------------------------------

    // At most `most` rounds of evict, insert and query, in which every query reads a partial that is there; `finish` runs
    // after them. They end early at a row that is not an append, and where a block ends.
    template <class Rows, class Emit, class Finish>
    void run_rounds(const Rows& rows, size_t& row, size_t stop, uint64_t most, Emit emit, Finish&& finish) {
        uint64_t from = (front_ + 1) % kBlock, at = queue_.end() % kBlock;
        if (at == 0 || queue_.end() - front_ != size_) return;  // a time of several elements leaves in one round
        most = std::min({most, kBlock - from, kBlock - at, uint64_t{stop - row}});
        if (most == 0) return;
        auto& last = queue_.block(queue_.end());
        Time *const times = last.times + at, newest = times[-1];
        Entry* const entries = last.entries + at;
        Agg total = total_;
        const size_t first = row;
        uint64_t i = 0;
        bool stored = false;
        auto leave = [&] {
            uint64_t done = i + stored;
            row = first + i;
            total_ = total;
            queue_.pushed(done);
            front_ += done;
            queue_.drop_front(front_);
            finish(done);
        };
        try {
            AtWork<Monoid> monoid(monoid_);
            queue_.partials(front_ + 1).reading(from, [&](auto partial) {
                for (; i < most; ++i) {
                    Time time = rows.time(first + i);
                    if (!less(newest, time)) break;
                    Entry entry = rows.entry(first + i, time);
                    times[i] = newest = time;
                    entries[i] = entry;
                    monoid->append_entry(total, entry);
                    Agg agg = partial(i);
                    monoid->append(agg, total);
                    stored = true;
                    emit(first + i, agg);
                    stored = false;
                }
            });
        } catch (...) {
            leave();
            throw;
        }
        leave();
    }

    void save(uint64_t from, uint64_t to) {
        if constexpr (Monoid::may_throw)
            for (; from < to; ++from) save(from);
    }
    void save(uint64_t position) {
        if constexpr (Monoid::may_throw) {
            std::optional<Agg> partial;
            if (queue_.has_partials(position)) partial = queue_.partial(position);
            undo_.push_back({position, queue_.entry(position), std::move(partial)});
        }
    }
    void commit_queue() {
        undo_.clear();
        queue_.drop_front(front_);
    }
    void rollback_queue(uint64_t front, uint64_t end, size_t size) {
        for (size_t i = undo_.size(); i-- > 0;) {
            queue_.entry(undo_[i].position) = std::move(undo_[i].entry);
            if (queue_.has_partials(undo_[i].position))
                queue_.put_partial(undo_[i].position, undo_[i].partial ? std::move(*undo_[i].partial) : Agg{});
        }
        undo_.clear();
        queue_.drop_back(end);
        front_ = front;
        size_ = size;
    }

    Monoid monoid_;
    BlockQueue<Time, Monoid> queue_;
    Agg total_{};         // of the back, which has no partials
    uint64_t front_ = 0;  // ahead of queue_.begin() within a change that may be undone
    size_t size_ = 0;     // times, not elements
    std::vector<Saved> undo_;

   private:
    template <class Before>
    uint64_t partition(Before&& before) const {
        uint64_t low = front_, high = queue_.end();
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (before(queue_.time(middle)))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
};

}  // namespace sash
