// The queue of the in-order structures: a time and an entry for each element, and a partial aggregate where one is
// stored.
//
// Positions only grow and never move: element p stays at p until it is dropped. Blocks are allocated and freed one at a
// time, so no push or drop ever copies the queue; only the small directory of blocks doubles. A block gets room for
// partials when the first of them is stored, so an element that needs none takes no more than its time and its entry.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "structures/contract.hpp"

namespace sash {

// The partial aggregates of one block.
template <class Monoid, uint32_t size, bool narrow = Monoid::narrows>
class Partials {
    using Agg = typename Monoid::Agg;
    using Entry = typename Monoid::Entry;

   public:
    const Agg& at(uint32_t i) const { return aggs_[i]; }
    // Calls `use(read)`, where read(i) is at(from + i), at its fastest.
    template <class Use>
    void reading(size_t from, Use&& use) const {
        use([aggs = aggs_ + from](size_t i) -> const Agg& { return aggs[i]; });
    }
    SASH_FETCH void fetch(uint64_t i) const { __builtin_prefetch(aggs_ + i); }
    void put(uint32_t i, Agg agg) { aggs_[i] = std::move(agg); }
    void clear(uint32_t i) { clear_slot(aggs_[i]); }
    void renew() {}

    // Adds an aggregate to those of [from, to).
    void extend(uint32_t from, uint32_t to, const Agg& agg, AtWork<Monoid>& monoid) {
        for (; from < to; ++from) monoid->append(aggs_[from], agg);
    }
    // Stores at each of [from, to) the aggregate from itself as far as `agg`, that at `to`, reaches; it becomes the first.
    void turn(uint32_t from, uint32_t to, const Entry* entries, Agg& agg, AtWork<Monoid>& monoid) {
        while (to > from) {
            monoid->prepend_entry(entries[--to], agg);
            aggs_[to] = agg;
        }
    }

   private:
    Agg aggs_[size];
};

// Where nearly all aggregates fit fewer bytes, those are stored; if one of a block does not fit, its whole block is wide.
template <class Monoid, uint32_t size>
class Partials<Monoid, size, true> {
    using Agg = typename Monoid::Agg;
    using Entry = typename Monoid::Entry;
    using Narrow = typename Monoid::Narrow;

   public:
    Partials() = default;
    Partials(const Partials& other) {
        std::copy(other.narrow_, other.narrow_ + size, narrow_);
        if (!other.wide_) return;
        wide_.reset(new Agg[size]);
        std::copy(other.wide_.get(), other.wide_.get() + size, wide_.get());
    }

    Agg at(uint32_t i) const { return wide_ ? wide_[i] : Monoid::widened(narrow_[i]); }
    template <class Use>
    void reading(size_t from, Use&& use) const {
        if (wide_)
            use([wide = wide_.get() + from](size_t i) -> Agg { return wide[i]; });
        else
            use([narrow = narrow_ + from](size_t i) -> Agg { return Monoid::widened(narrow[i]); });
    }
    SASH_FETCH void fetch(uint64_t i) const {
        __builtin_prefetch(narrow_ + i);
        __builtin_prefetch(&wide_);
    }
    void put(uint32_t i, const Agg& agg) {
        if (wide_ || !Monoid::narrow(agg, narrow_[i])) put_wide(i, agg);
    }
    static void clear(uint32_t) {}
    void renew() { wide_.reset(); }  // for other elements, whose aggregates are narrow again as a rule

    void extend(uint32_t from, uint32_t to, const Agg& more, AtWork<Monoid>& monoid) {
        const Agg added = more;
        if (!wide_) from = extend_narrow(from, to, added, monoid);
        for (; from < to; ++from) monoid->append(wide_[from], added);
    }
    void turn(uint32_t from, uint32_t to, const Entry* entries, Agg& agg, AtWork<Monoid>& monoid) {
        if (!wide_) to = turn_narrow(from, to, entries, agg, monoid);
        while (to > from) {
            monoid->prepend_entry(entries[--to], agg);
            wide_[to] = agg;
        }
    }

   private:
    // As far as aggregates are narrow, and the first that is not. Nothing in these loops has an address that is known
    // elsewhere, so all of it stays in registers.
    uint32_t extend_narrow(uint32_t from, uint32_t to, const Agg& more, AtWork<Monoid>& monoid) {
        AtWork<Monoid> work(*monoid.operator->());
        const Agg added = more;
        Agg agg;
        for (; from < to; ++from) {
            agg = Monoid::widened(narrow_[from]);
            work->append(agg, added);
            Narrow word;
            if (!Monoid::narrow(agg, word)) break;
            narrow_[from] = word;
        }
        if (from == to) return to;
        const Agg first = agg;
        put_wide(from, first);
        return from + 1;
    }
    uint32_t turn_narrow(uint32_t from, uint32_t to, const Entry* entries, Agg& last, AtWork<Monoid>& monoid) {
        AtWork<Monoid> work(*monoid.operator->());
        Agg agg = last;
        bool fits = true;
        while (to > from && fits) {
            work->prepend_entry(entries[--to], agg);
            fits = Monoid::narrow(agg, narrow_[to]);
        }
        last = agg;
        if (!fits) put_wide(to, last);
        return to;
    }

    SASH_RARE void put_wide(uint32_t i, const Agg& agg) {
        if (!wide_) {
            wide_.reset(new Agg[size]);
            for (uint32_t k = 0; k < size; ++k) wide_[k] = Monoid::widened(narrow_[k]);
        }
        wide_[i] = agg;
    }

    Narrow narrow_[size] = {};
    std::unique_ptr<Agg[]> wide_;
};

template <class Time, class Monoid>
class BlockQueue {
   public:
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    static constexpr uint64_t kBlock = sizeof(Agg) > 256 ? 16 : 512;
    using Sums = Partials<Monoid, kBlock>;

    struct Block {
        Time times[kBlock];
        Entry entries[kBlock];
    };

    BlockQueue() : directory_(4) { spare_partials_.reserve(directory_.size() + 1); }
    BlockQueue(const BlockQueue& other) : directory_(other.directory_.size()), begin_(other.begin_), end_(other.end_) {
        spare_partials_.reserve(directory_.size() + 1);
        for (uint64_t b = begin_ / kBlock; b < blocks_end(); ++b) copy_block(other.slot(b), slot(b));
    }
    BlockQueue& operator=(const BlockQueue&) = delete;

    uint64_t begin() const { return begin_; }
    uint64_t end() const { return end_; }
    const Time& time(uint64_t p) const { return block(p).times[p % kBlock]; }
    Entry& entry(uint64_t p) { return block(p).entries[p % kBlock]; }
    const Entry& entry(uint64_t p) const { return block(p).entries[p % kBlock]; }
    Block& block(uint64_t p) const { return *slot(p / kBlock).block; }

    // Part of every loop that inserts: whether the compiler would see that itself depends on what else a file has.
    __attribute__((always_inline)) void push(Time time, Entry entry) {
        if (end_ % kBlock == 0) open_block();
        Block& last = block(end_);
        last.times[end_ % kBlock] = std::move(time);
        last.entries[end_ % kBlock] = std::move(entry);
        ++end_;
    }
    // Brings entries and partials around an element into the cache, or the first of them: the processor goes on by itself.
    SASH_FETCH void fetch(uint64_t p, bool entries) const {
        const Slot& at = slot(p / kBlock);
        if (entries) __builtin_prefetch(&at.block->entries[p % kBlock]);
        if (at.partials) at.partials->fetch(p % kBlock);
    }
    // The same for elements that were written to the room behind the last one.
    void pushed(uint64_t count) { end_ += count; }

    // --- partial aggregates ----------------------------------------------------------------------------

    bool has_partials(uint64_t p) const { return bool(slot(p / kBlock).partials); }
    decltype(auto) partial(uint64_t p) const { return std::as_const(*slot(p / kBlock).partials).at(p % kBlock); }
    void put_partial(uint64_t p, Agg agg) { partials(p).put(p % kBlock, std::move(agg)); }
    // The partials of the block that `p` is in, with room for them if there was none.
    Sums& partials(uint64_t p) {
        std::unique_ptr<Sums>& partials = slot(p / kBlock).partials;
        if (!partials) partials = spare_partials();
        return *partials;
    }

    // --- dropping --------------------------------------------------------------------------------------

    // Destroys everything before `p`.
    void drop_front(uint64_t p) {
        while (begin_ < p) {
            uint64_t stop = plain ? std::min(p, (begin_ / kBlock + 1) * kBlock) : begin_ + 1;
            if constexpr (!plain) clear_element(begin_);
            begin_ = stop;
            if (begin_ % kBlock == 0) close_block(begin_ - 1);
        }
    }

    // Destroys everything from `p` on.
    void drop_back(uint64_t p) {
        while (end_ > p) {
            --end_;
            if constexpr (!plain) clear_element(end_);
            if (end_ % kBlock == 0) close_block(end_);
        }
    }

   private:
    static constexpr bool plain = std::is_trivially_destructible_v<Time> && std::is_trivially_destructible_v<Entry> &&
                                  std::is_trivially_destructible_v<Agg>;

    // Both pointers are here, in a few kilobytes: from a block to its partials would be another cache miss.
    struct Slot {
        std::unique_ptr<Block> block;
        std::unique_ptr<Sums> partials;
    };

    const Slot& slot(uint64_t number) const { return directory_[number & (directory_.size() - 1)]; }
    Slot& slot(uint64_t number) { return directory_[number & (directory_.size() - 1)]; }
    uint64_t blocks_end() const { return (end_ + kBlock - 1) / kBlock; }

    void clear_element(uint64_t p) {
        Block& at = block(p);
        clear_slot(at.times[p % kBlock]);
        clear_slot(at.entries[p % kBlock]);
        if (has_partials(p)) slot(p / kBlock).partials->clear(p % kBlock);
    }

    SASH_RARE void open_block() {
        uint64_t number = end_ / kBlock;
        if (number - begin_ / kBlock >= directory_.size()) widen();
        slot(number).block = spare_ ? std::move(spare_) : std::unique_ptr<Block>(new Block);
    }
    SASH_RARE void close_block(uint64_t p) {
        Slot& closed = slot(p / kBlock);
        spare_ = std::move(closed.block);
        if (closed.partials) {
            closed.partials->renew();
            spare_partials_.push_back(std::move(closed.partials));
        }
        while (spare_partials_.size() > blocks_end() - begin_ / kBlock) spare_partials_.pop_back();
    }
    std::unique_ptr<Sums> spare_partials() {
        if (spare_partials_.empty()) return std::unique_ptr<Sums>(new Sums);
        std::unique_ptr<Sums> spare = std::move(spare_partials_.back());
        spare_partials_.pop_back();
        return spare;
    }

    void widen() {
        std::vector<Slot> wider(2 * directory_.size());
        spare_partials_.reserve(wider.size() + 1);  // so that nothing can fail where elements are dropped
        for (uint64_t b = begin_ / kBlock; b < end_ / kBlock; ++b) wider[b & (wider.size() - 1)] = std::move(slot(b));
        directory_ = std::move(wider);
    }

    SASH_COLD void copy_block(const Slot& from, Slot& to) const {
        to.block.reset(new Block);
        std::copy(from.block->times, from.block->times + kBlock, to.block->times);
        for (uint64_t i = 0; i < kBlock; ++i) to.block->entries[i] = Entry(from.block->entries[i]);
        if (from.partials) to.partials.reset(new Sums(*from.partials));
    }

    std::vector<Slot> directory_;
    std::unique_ptr<Block> spare_;
    // At most one for each block: a queue that is turned round needs them again at once, and pages that the system has
    // taken back meanwhile cost more than the turning.
    std::vector<std::unique_ptr<Sums>> spare_partials_;
    uint64_t begin_ = 0, end_ = 0;
};

}  // namespace sash
