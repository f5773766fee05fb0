// The nodes of `fiba`: leaves have arrays of times and of entries, of types known at compile time.
//
// Sizes are chosen at run time, so a node is one block of memory with its arrays after its header. Slots of non-trivial
// types (Python objects) are always constructed, and move element by element.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "structures/contract.hpp"
#include "tree/nodes.hpp"
#include "tree/spines.hpp"

namespace sash::tree {

// Entries [begin, end) of as many slots as the pool's capacity, in time order.
template <class Time, class Entry>
struct alignas(16) TypedLeaf : Node {
    uint32_t begin = 0, end = 0;
    Entry* entries = nullptr;

    Time* times() { return reinterpret_cast<Time*>(this + 1); }
    const Time* times() const { return reinterpret_cast<const Time*>(this + 1); }
    uint32_t count() const { return end - begin; }
    const Time& front() const { return times()[begin]; }
    const Time& back() const { return times()[end - 1]; }
};

template <class Time, class Agg>
struct TypedInner : InnerNode<Time> {
    Agg* aggs = nullptr;
};

// Allocates and frees nodes; keeps a few freed leaves, because a sliding window frees one for each that it allocates.
template <class Time, class EntryType, class AggType>
class TypedNodes {
   public:
    using Place = Time;
    using Entry = EntryType;
    using Agg = AggType;
    using Leaf = TypedLeaf<Time, Entry>;
    using Inner = TypedInner<Time, Agg>;
    using Spines = FixedSpines;
    static constexpr bool counts = false, grows = false;

    TypedNodes(uint32_t capacity, uint32_t fanout) : capacity_(capacity), fanout_(fanout) {}
    TypedNodes(const TypedNodes& other) : TypedNodes(other.capacity_, other.fanout_) {}
    TypedNodes& operator=(const TypedNodes&) = delete;
    ~TypedNodes() {
        for (void* leaf : spare_) std::free(leaf);
    }

    uint32_t capacity() const { return capacity_; }
    uint32_t append_limit() const { return capacity_; }
    uint32_t fanout() const { return fanout_; }
    uint32_t room(const Leaf*) const { return capacity_; }

    static bool less(const Place& a, const Place& b) { return sash::less(a, b); }
    static const Place& place(const Leaf* leaf, uint32_t i) { return leaf->times()[i]; }

    Leaf* make_leaf() {
        void* memory = spare_.empty() ? allocated(leaf_bytes()) : spare_.back();
        if (!spare_.empty()) spare_.pop_back();
        Leaf* leaf = new (memory) Leaf;
        leaf->entries = reinterpret_cast<Entry*>(static_cast<char*>(memory) + entries_offset());
        std::uninitialized_default_construct_n(leaf->times(), capacity_);
        std::uninitialized_default_construct_n(leaf->entries, capacity_);
        return leaf;
    }
    Leaf* make_leaf(uint32_t) { return make_leaf(); }

    void free_leaf(Leaf* leaf) {
        std::destroy_n(leaf->times(), capacity_);
        std::destroy_n(leaf->entries, capacity_);
#ifndef SASH_SANITIZE
        if (spare_.size() < kSpare) return spare_.push_back(leaf);
#endif
        std::free(leaf);
    }

    Inner* make_inner() {
        size_t children = aligned(sizeof(Inner)), first = children + aligned(fanout_ * sizeof(Node*));
        size_t aggs = first + aligned(fanout_ * sizeof(Time));
        char* memory = static_cast<char*>(allocated(aggs + fanout_ * sizeof(Agg)));
        Inner* inner = new (memory) Inner;
        inner->children = reinterpret_cast<Node**>(memory + children);
        inner->first = reinterpret_cast<Time*>(memory + first);
        inner->aggs = reinterpret_cast<Agg*>(memory + aggs);
        std::uninitialized_default_construct_n(inner->first, fanout_);
        std::uninitialized_default_construct_n(inner->aggs, fanout_);
        return inner;
    }

    void free_inner(Inner* inner) {
        std::destroy_n(inner->first, fanout_);
        std::destroy_n(inner->aggs, fanout_);
        std::free(inner);
    }

    __attribute__((always_inline)) void move_entries(Leaf* from, uint32_t begin, uint32_t end, Leaf* to, uint32_t at) {
        if (from == to && at > begin) {
            uint32_t stop = at + (end - begin);
            std::move_backward(from->times() + begin, from->times() + end, to->times() + stop);
            std::move_backward(from->entries + begin, from->entries + end, to->entries + stop);
        } else {
            std::move(from->times() + begin, from->times() + end, to->times() + at);
            std::move(from->entries + begin, from->entries + end, to->entries + at);
        }
    }
    void clear_entries(Leaf* leaf, uint32_t begin, uint32_t end) {
        if constexpr (!std::is_trivially_destructible_v<Time> || !std::is_trivially_destructible_v<Entry>)
            for (uint32_t i = begin; i < end; ++i) clear_slot(leaf->times()[i]), clear_slot(leaf->entries[i]);
    }

    void move_more(Inner* from, uint32_t begin, uint32_t end, Inner* to, uint32_t at) {
        if (from == to && at > begin)
            std::move_backward(from->aggs + begin, from->aggs + end, to->aggs + at + (end - begin));
        else
            std::move(from->aggs + begin, from->aggs + end, to->aggs + at);
    }
    void set_stale(Inner* node, uint32_t i) {
        node->valid &= ~(uint64_t{1} << i);
        clear_slot(node->aggs[i]);
    }
    void clear_child(Inner* node, uint32_t i) {
        clear_slot(node->first[i]);
        clear_slot(node->aggs[i]);
    }

    Leaf* copied(const Leaf* from) {
        Leaf* to = make_leaf();
        to->begin = from->begin;
        to->end = from->end;
        std::copy(from->times() + from->begin, from->times() + from->end, to->times() + to->begin);
        for (uint32_t i = from->begin; i < from->end; ++i) to->entries[i] = Entry(from->entries[i]);
        return to;
    }
    Inner* copied(const Inner* from) {
        Inner* to = make_inner();
        to->count = from->count;
        to->valid = from->valid;
        std::copy(from->first, from->first + from->count, to->first);
        std::copy(from->aggs, from->aggs + from->count, to->aggs);
        return to;
    }

    // A leaf far from the ends is rarely in cache. Its search would fetch line after line, so all are prefetched.
    SASH_FETCH void prefetch(const Leaf* leaf) const {
        constexpr uint32_t step = std::max<size_t>(1, 64 / sizeof(Time));
        for (uint32_t i = 0; i < capacity_; i += step) __builtin_prefetch(leaf->times() + i);
    }
    SASH_FETCH void prefetch_entries(const Node* leaf) const {
        const char* bytes = reinterpret_cast<const char*>(leaf);
        for (size_t at = entries_offset(); at < leaf_bytes(); at += 64) __builtin_prefetch(bytes + at);
        __builtin_prefetch(bytes);
    }
    SASH_FETCH void prefetch_whole(const Leaf* leaf) const {
        const char* bytes = reinterpret_cast<const char*>(leaf);
        for (size_t at = 0; at < leaf_bytes(); at += 64) __builtin_prefetch(bytes + at);
    }

   private:
    static constexpr size_t kSpare = 16;
    size_t entries_offset() const { return sizeof(Leaf) + aligned(capacity_ * sizeof(Time)); }
    size_t leaf_bytes() const { return entries_offset() + capacity_ * sizeof(Entry); }

    uint32_t capacity_, fanout_;
    std::vector<void*> spare_;
};

}  // namespace sash::tree
