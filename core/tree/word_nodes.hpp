// The nodes of trees whose entries are rows of words, as many as set at run time.
//
// One pool serves all keys of an engine. A leaf has memory for a few rows at first and grows by size classes up to its
// full capacity, so that a key of three rows takes three rows' memory. Summaries are records of words, allocated for a
// node when the first of them is stored.
#pragma once

#include <cstring>
#include <vector>

#include "tree/nodes.hpp"
#include "tree/spines.hpp"

namespace sash::tree {

// Ids that are bytes are numbers here, and this puts the numbers in order.
class TieOrder {
   public:
    virtual bool less(int64_t a, int64_t b) const = 0;

   protected:
    ~TieOrder() = default;
};

// Where a row stands: its time, and its id or the order of arrival among rows of that time.
struct RowPlace {
    int64_t time, tie;
};

// Rows [begin, end) of `room`, in order; a row starts with its place.
struct alignas(16) WordLeaf : Node {
    uint32_t begin = 0, end = 0, room = 0;
    int64_t* words() { return reinterpret_cast<int64_t*>(this + 1); }
    const int64_t* words() const { return reinterpret_cast<const int64_t*>(this + 1); }
    uint32_t count() const { return end - begin; }
};
static_assert(sizeof(WordLeaf) == 16);

struct WordInner : InnerNode<RowPlace> {
    uint32_t* counts = nullptr;    // of the rows below each child that is not on a spine
    int64_t* summaries = nullptr;  // one after the other; null until there is one
};

class WordNodes {
   public:
    using Place = RowPlace;
    using Leaf = WordLeaf;
    using Inner = WordInner;
    using Spines = SmallSpines;
    static constexpr bool counts = true, grows = true;

    WordNodes(uint32_t stride, uint32_t capacity, uint32_t fanout, uint32_t summary_words)
        : stride_(stride), capacity_(capacity), fanout_(fanout), summary_words_(summary_words) {}
    WordNodes(const WordNodes&) = delete;
    ~WordNodes() {
        for (void* leaf : spare_) std::free(leaf);
    }

    uint32_t stride() const { return stride_; }
    uint32_t capacity() const { return capacity_; }
    uint32_t append_limit() const { return capacity_ - capacity_ / 16; }
    uint32_t fanout() const { return fanout_; }
    // Of all nodes, and of leaves that are kept for later.
    size_t bytes() const { return bytes_ + spare_.size() * leaf_bytes(capacity_) + spare_.capacity() * sizeof(void*); }
    void set_order(const TieOrder* order) { order_ = order; }

    __attribute__((always_inline)) bool less(const Place& a, const Place& b) const {
        if (__builtin_expect(order_ != nullptr, 0)) return less_by_name(a, b);
        return (a.time < b.time) | ((a.time == b.time) & (a.tie < b.tie));
    }
    int64_t* row(Leaf* leaf, uint32_t i) const { return leaf->words() + size_t{i} * stride_; }
    const int64_t* row(const Leaf* leaf, uint32_t i) const { return leaf->words() + size_t{i} * stride_; }
    const Place& place(const Leaf* leaf, uint32_t i) const { return *reinterpret_cast<const Place*>(row(leaf, i)); }

    // --- leaves ----------------------------------------------------------------------------------------

    uint32_t room(const Leaf* leaf) const { return leaf->room; }

    Leaf* make_leaf(uint32_t wanted) {
        uint32_t room = size_class(wanted);
        void* memory = nullptr;
        if (room == capacity_ && !spare_.empty()) {
            memory = spare_.back();
            spare_.pop_back();
        } else {
            memory = allocated(leaf_size(room));
        }
        bytes_ += leaf_bytes(room);
        Leaf* leaf = new (memory) Leaf;
        leaf->room = room;
        return leaf;
    }
    void free_leaf(Leaf* leaf) {
        bytes_ -= leaf_bytes(leaf->room);
#ifndef SASH_SANITIZE
        if (leaf->room == capacity_ && spare_.size() < kSpare) return spare_.push_back(leaf);
#endif
        std::free(leaf);
    }
    // The same rows, from 0 on, in a leaf of another size; the old one is the caller's to free.
    Leaf* resized(Leaf* old, uint32_t wanted) {
        Leaf* fresh = make_leaf(wanted);
        move_entries(old, old->begin, old->end, fresh, 0);
        fresh->end = old->count();
        return fresh;
    }
    // 1, 2, 3, 4, 6, 8, 12, 16, ... and the capacity.
    uint32_t size_class(uint32_t wanted) const {
        uint32_t size = 1;
        while (size < wanted) size = size < 4 ? size + 1 : (size & (size - 1)) ? size / 3 * 4 : size / 2 * 3;
        return std::min(size, capacity_);
    }

    void move_entries(Leaf* from, uint32_t begin, uint32_t end, Leaf* to, uint32_t at) {
        std::memmove(row(to, at), row(from, begin), size_t{end - begin} * stride_ * sizeof(int64_t));
    }
    void clear_entries(Leaf*, uint32_t, uint32_t) {}

    // --- inner nodes -----------------------------------------------------------------------------------

    Inner* make_inner() {
        size_t children = aligned(sizeof(Inner)), first = children + aligned(fanout_ * sizeof(Node*));
        size_t counted = first + fanout_ * sizeof(Place);
        char* memory = static_cast<char*>(allocated(inner_size()));
        bytes_ += inner_bytes();
        Inner* inner = new (memory) Inner;
        inner->children = reinterpret_cast<Node**>(memory + children);
        inner->first = reinterpret_cast<Place*>(memory + first);
        inner->counts = reinterpret_cast<uint32_t*>(memory + counted);
        return inner;
    }
    void free_inner(Inner* inner) {
        bytes_ -= inner_bytes() + (inner->summaries ? summary_bytes() : 0);
        std::free(inner->summaries);
        std::free(inner);
    }
    uint32_t summary_words() const { return summary_words_; }
    int64_t* summary(Inner* inner, uint32_t i) {
        if (!inner->summaries) {
            inner->summaries = static_cast<int64_t*>(allocated(summary_size()));
            bytes_ += summary_bytes();
        }
        return inner->summaries + size_t{i} * summary_words_;
    }
    const int64_t* summary(const Inner* inner, uint32_t i) const {
        return inner->summaries + size_t{i} * summary_words_;
    }

    void move_more(Inner* from, uint32_t begin, uint32_t end, Inner* to, uint32_t at) {
        if (begin >= end) return;
        std::memmove(to->counts + at, from->counts + begin, (end - begin) * sizeof(uint32_t));
        if (!((from->valid & low_bits(end)) >> begin)) return;
        std::memmove(summary(to, at), summary(from, begin), size_t{end - begin} * summary_words_ * sizeof(int64_t));
    }
    void set_stale(Inner* node, uint32_t i) { node->valid &= ~(uint64_t{1} << i); }
    void clear_child(Inner*, uint32_t) {}

    // A leaf far from the ends is rarely in cache. Its search would fetch line after line, so all are prefetched.
    SASH_FETCH void prefetch(const Leaf* leaf) const { prefetch_whole(leaf); }
    SASH_FETCH void prefetch_whole(const Leaf* leaf) const {
        const char* bytes = reinterpret_cast<const char*>(leaf);
        size_t most = std::min<size_t>(leaf_size(capacity_), kPrefetched);
        for (size_t at = 0; at < most; at += 64) __builtin_prefetch(bytes + at);
    }

   private:
    __attribute__((noinline)) bool less_by_name(const Place& a, const Place& b) const {
        return a.time < b.time || (a.time == b.time && order_->less(a.tie, b.tie));
    }

    static constexpr size_t kSpare = 16, kPrefetched = 4096;
    size_t leaf_size(uint32_t room) const { return sizeof(Leaf) + size_t{room} * stride_ * sizeof(int64_t); }
    size_t inner_size() const {
        return aligned(sizeof(Inner)) + aligned(fanout_ * sizeof(Node*)) + fanout_ * sizeof(Place) +
               fanout_ * sizeof(uint32_t);
    }
    size_t summary_size() const { return size_t{fanout_} * summary_words_ * sizeof(int64_t); }
    size_t leaf_bytes(uint32_t room) const { return allocated_bytes(leaf_size(room)); }
    size_t inner_bytes() const { return allocated_bytes(inner_size()); }
    size_t summary_bytes() const { return allocated_bytes(summary_size()); }

    uint32_t stride_, capacity_, fanout_, summary_words_;
    const TieOrder* order_ = nullptr;
    size_t bytes_ = 0;
    std::vector<void*> spare_;
};

}  // namespace sash::tree
