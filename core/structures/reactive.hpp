// The Reactive Aggregator: a flat, complete binary tree over a ring of leaves. In-order insert, evict anywhere, O(log n).
//
// Leaf i of `capacity` is node capacity + i; node k has children 2k and 2k + 1; node 1 is the root. A place that holds
// nothing is skipped, so no identity is ever combined. When the ring has wrapped, the root's order is not that of time and
// a query joins the later leaves of the array, which are older, with the earlier ones. A full ring is rebuilt: without
// its holes, or twice as large; a nearly empty one smaller. (Tangwongsan et al., VLDB 2015.)
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "structures/contract.hpp"

namespace sash {

template <class TimeType, class MonoidType>
class Reactive {
   public:
    using Time = TimeType;
    using Monoid = MonoidType;
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    static constexpr const char* name = "reactive";
    static constexpr bool any_order = false;
    static constexpr bool ranges = true;
    static constexpr bool updates_run_no_code = false;
    static constexpr bool runs = false;

    Reactive(Monoid monoid, const Options&) : monoid_(std::move(monoid)), store_(kLeast) {}

    Monoid& monoid() { return monoid_; }
    size_t size() const { return size_; }
    uint64_t spent() const { return 0; }
    const Time& oldest() const { return leaf(front_).time; }
    const Time& newest() const { return leaf(end_ - 1).time; }

    void require_order(const Time& time) const {
        if (size_ && less(time, newest())) throw TooEarly{AnyTime(time), AnyTime(newest())};
    }

    bool insert(Time time, Entry entry) {
        require_order(time);
        if (size_ && !less(newest(), time)) {
            save_leaf(end_ - 1);
            if (!monoid_.merge(leaf(end_ - 1).entry, entry)) return false;
            repair_path(end_ - 1);
            return true;
        }
        if (end_ - front_ == store_.capacity)
            rebuild(size_ > store_.capacity / 2 ? 2 * store_.capacity : store_.capacity);
        save_leaf(end_);
        leaf(end_) = {std::move(time), std::move(entry), true};
        ++end_;
        ++size_;
        repair_path(end_ - 1);
        return true;
    }

    bool evict(const Time& time) {
        uint64_t p = find(time);
        if (p == end_) return false;
        evict_at(p);
        return true;
    }
    void evict_oldest() { evict_at(front_); }

    template <class Visit>
    void each_oldest(Visit&& visit) const {
        visit(leaf(front_).time, leaf(front_).entry);
    }

    bool contains(const Time& time) const { return find(time) != end_; }

    Agg query() {
        uint64_t from = front_ & store_.mask(), to = (end_ - 1) & store_.mask();
        if (from <= to) return store_.aggs[1];
        Fold<Monoid> fold(monoid_);
        fold_leaves(from, store_.capacity, fold);
        fold_leaves(0, to + 1, fold);
        return std::move(fold.get());
    }

    bool query(const Range<Time>& range, Agg& agg) {
        auto [from, to] = bounds(range);
        if (from >= to) return false;
        Fold<Monoid> fold(monoid_);
        uint64_t low = from & store_.mask(), high = (to - 1) & store_.mask();
        if (low <= high) {
            fold_leaves(low, high + 1, fold);
        } else {
            fold_leaves(low, store_.capacity, fold);
            fold_leaves(0, high + 1, fold);
        }
        if (fold.some()) agg = std::move(fold.get());
        return fold.some();
    }

    template <class Visit>
    void scan(const Range<Time>& range, bool reverse, Visit&& visit) const {
        auto [from, to] = bounds(range);
        while (from < to) {
            const Leaf& at = leaf(reverse ? --to : from++);
            if (at.live && !visit(at.time, at.entry)) return;
        }
    }

    // For drawings: the children of a node that hold anything, the aggregate of an inner node, the content of a leaf.
    static constexpr uint64_t kRoot = 1;
    bool is_leaf(uint64_t node) const { return node >= store_.capacity; }
    bool some(uint64_t node) const {
        return is_leaf(node) ? store_.leaves[node - store_.capacity].live : store_.some[node] != 0;
    }
    uint64_t leaf_of(const Time& time) const {  // or of the next one
        return store_.capacity + (std::min(lower_bound(time), end_ - 1) & store_.mask());
    }
    const Agg& agg(uint64_t node) const { return store_.aggs[node]; }
    const Time& time(uint64_t node) const { return store_.leaves[node - store_.capacity].time; }
    const Entry& entry(uint64_t node) const { return store_.leaves[node - store_.capacity].entry; }

    SASH_COLD void check() {
        uint64_t combines = monoid_.combines;
        require(end_ - front_ <= store_.capacity, "the leaves fit the ring");
        require(size_ == 0 ? front_ == end_ : leaf(front_).live && leaf(end_ - 1).live, "both ends are live");
        size_t live = 0;
        for (uint64_t p = front_; p < end_; ++p) {
            if (p > front_) require(less(leaf(p - 1).time, leaf(p).time), "times ascend");
            live += leaf(p).live;
        }
        for (uint64_t p = end_; p < front_ + store_.capacity; ++p) require(!leaf(p).live, "nothing lives outside");
        require(live == size_, "the size is the number of live leaves");
        for (uint64_t k = store_.capacity; k-- > 1;) {
            Fold<Monoid> fold(monoid_);
            fold_node(2 * k, fold);
            fold_node(2 * k + 1, fold);
            require(fold.some() == store_.some[k], "a node knows whether anything is below it");
            if (fold.some()) require(monoid().same(store_.aggs[k], fold.get()), "an aggregate is that of its children");
        }
        monoid_.combines = combines;
    }

    template <class Visit>
    void visit(Visit&& f) const {
        for (const Leaf& leaf : store_.leaves) {
            visit_if_ref(leaf.time, f);
            visit_if_ref(leaf.entry, f);
        }
        for (const Agg& agg : store_.aggs) visit_if_ref(agg, f);
    }

    void begin() { before_ = {front_, end_, size_}; }
    void commit() {
        undo_.clear();
        if (undo_.capacity() > 4096) undo_.shrink_to_fit();
        replaced_.reset();
    }
    void rollback() {
        if (replaced_) store_ = std::move(*replaced_);
        for (size_t i = undo_.size(); i-- > 0;) {
            Saved& saved = undo_[i];
            if (saved.node >= store_.capacity) {
                store_.leaves[saved.node - store_.capacity] = std::move(saved.leaf);
            } else {
                store_.aggs[saved.node] = std::move(saved.agg);
                store_.some[saved.node] = saved.some;
            }
        }
        commit();
        front_ = before_.front;
        end_ = before_.end;
        size_ = before_.size;
    }

   private:
    struct Leaf {
        Time time{};
        Entry entry{};
        bool live = false;
    };
    struct Store {
        uint64_t capacity;
        std::vector<Leaf> leaves;
        std::vector<Agg> aggs;  // by node; 0 is unused
        std::vector<char> some;
        explicit Store(uint64_t c) : capacity(c), leaves(c), aggs(c), some(c) {}
        uint64_t mask() const { return capacity - 1; }
    };
    struct Saved {
        uint64_t node;
        Leaf leaf;
        Agg agg{};
        bool some = false;
    };
    struct Before {
        uint64_t front, end;
        size_t size;
    };
    static constexpr uint64_t kLeast = 8;

    Leaf& leaf(uint64_t p) { return store_.leaves[p & store_.mask()]; }
    const Leaf& leaf(uint64_t p) const { return store_.leaves[p & store_.mask()]; }

    // The live leaf of this time, or end_.
    uint64_t find(const Time& time) const {
        uint64_t p = lower_bound(time);
        return p < end_ && leaf(p).live && !less(time, leaf(p).time) ? p : end_;
    }

    template <class Before>
    uint64_t partition(Before&& before) const {
        uint64_t low = front_, high = end_;
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (before(leaf(middle).time))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
    uint64_t lower_bound(const Time& time) const {
        return partition([&](const Time& t) { return less(t, time); });
    }
    std::pair<uint64_t, uint64_t> bounds(const Range<Time>& range) const {
        uint64_t from = range.start ? partition([&](const Time& t) { return !range.after_start(t); }) : front_;
        uint64_t to = range.stop ? partition([&](const Time& t) { return range.before_stop(t); }) : end_;
        return {from, to};
    }

    void evict_at(uint64_t p) {
        save_leaf(p);
        leaf(p).live = false;
        leaf(p).entry = Entry();
        --size_;
        repair_path(p);
        // Holes at the ends are dropped, with the times that were stored for searches.
        while (front_ < end_ && !leaf(front_).live) give_up(front_++);
        while (front_ < end_ && !leaf(end_ - 1).live) give_up(--end_);
        if (store_.capacity > kLeast && size_ < store_.capacity / 8) rebuild(store_.capacity / 2);
    }

    void give_up(uint64_t p) {
        if constexpr (!std::is_trivially_destructible_v<Time>) {
            save_leaf(p);
            leaf(p).time = Time();
        }
    }

    // --- the flat tree ---------------------------------------------------------------------------

    void fold_node(uint64_t node, Fold<Monoid>& fold) {
        if (node >= store_.capacity) {
            const Leaf& at = store_.leaves[node - store_.capacity];
            if (at.live) fold.append_entry(at.entry);
        } else if (store_.some[node]) {
            fold.append(store_.aggs[node]);
        }
    }

    void repair(uint64_t node) {
        save_node(node);
        Fold<Monoid> fold(monoid_);
        fold_node(2 * node, fold);
        fold_node(2 * node + 1, fold);
        store_.some[node] = fold.some();
        store_.aggs[node] = fold.some() ? std::move(fold.get()) : Agg{};
    }

    void repair_path(uint64_t p) {
        for (uint64_t node = (store_.capacity + (p & store_.mask())) / 2; node; node /= 2) repair(node);
    }

    // Appends leaves [from, to) of the array: up the left flank, then down the right one.
    void fold_leaves(uint64_t from, uint64_t to, Fold<Monoid>& fold) {
        uint64_t flank[64];
        int depth = 0;
        for (from += store_.capacity, to += store_.capacity; from < to; from /= 2, to /= 2) {
            if (from & 1) fold_node(from++, fold);
            if (to & 1) flank[depth++] = --to;
        }
        while (depth) fold_node(flank[--depth], fold);
    }

    void rebuild(uint64_t capacity) {
        Store fresh(capacity);
        uint64_t count = 0;
        for (uint64_t p = front_; p < end_; ++p) {
            if (!leaf(p).live) continue;
            if constexpr (Monoid::may_throw)
                fresh.leaves[count++] = leaf(p);
            else
                fresh.leaves[count++] = std::move(leaf(p));
        }
        std::swap(store_, fresh);
        if constexpr (Monoid::may_throw)
            if (!replaced_) replaced_ = std::move(fresh);
        front_ = 0;
        end_ = count;
        for (uint64_t level = capacity / 2, used = (count + 1) / 2; level; level /= 2, used = (used + 1) / 2)
            for (uint64_t i = 0; i < used; ++i) repair(level + i);
    }

    // --- undoing: only what the store that begin() saw has lost ----------------------------------

    void save_leaf(uint64_t p) {
        if constexpr (Monoid::may_throw)
            if (!replaced_) undo_.push_back({store_.capacity + (p & store_.mask()), leaf(p), Agg{}, false});
    }
    void save_node(uint64_t node) {
        if constexpr (Monoid::may_throw)
            if (!replaced_) undo_.push_back({node, Leaf{}, store_.aggs[node], store_.some[node] != 0});
    }

    Monoid monoid_;
    Store store_;
    uint64_t front_ = 0, end_ = 0;
    size_t size_ = 0;
    std::optional<Store> replaced_;
    std::vector<Saved> undo_;
    Before before_{};
};

}  // namespace sash
