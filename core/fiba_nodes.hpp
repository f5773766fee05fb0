// The nodes of `fiba`: wide leaves that hold all entries, and inner nodes that hold what is known of their children.
//
// Sizes are chosen at run time, so a node is one block of memory with its arrays behind its header. Nodes know neither
// their parent nor their level; whoever holds a pointer knows the level. Slots of non-trivial types (Python objects)
// are always constructed and move element by element.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "contract.hpp"

namespace sash::fiba {

// Lets go of what a slot holds, where it can hold on to anything.
template <class T>
void clear_slot(T& slot) {
    if constexpr (!std::is_trivially_destructible_v<T>) clear(slot);
}

struct Node {};

// Entries [begin, end) of `capacity` slots, in time order.
template <class Time, class Entry>
struct alignas(16) Leaf : Node {
    uint32_t begin = 0, end = 0;
    Entry* entries = nullptr;

    Time* times() { return reinterpret_cast<Time*>(this + 1); }
    const Time* times() const { return reinterpret_cast<const Time*>(this + 1); }
    uint32_t count() const { return end - begin; }
    const Time& front() const { return times()[begin]; }
    const Time& back() const { return times()[end - 1]; }
};

// `count` children; child i holds times from first[i] up to first[i + 1]. aggs[i] is child i's aggregate where bit i of
// `valid` is set. A child on a spine has none: what it holds is aggregated along the spine.
template <class Time, class Agg>
struct alignas(16) Inner : Node {
    uint32_t count = 0;
    uint64_t valid = 0;
    Node** children = nullptr;
    Time* first = nullptr;
    Agg* aggs = nullptr;

    bool is_valid(uint32_t i) const { return valid >> i & 1; }
    void set_valid(uint32_t i) { valid |= uint64_t{1} << i; }
    void set_stale(uint32_t i) {
        valid &= ~(uint64_t{1} << i);
        clear_slot(aggs[i]);
    }
};

// The child that holds a time, or would: the last one that begins at or before it, and the first for all that is older.
template <class Time, class Agg>
uint32_t child_of(const Inner<Time, Agg>* node, const Time& time) {
    uint32_t low = 1, high = node->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (less(time, node->first[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low - 1;
}

inline uint64_t low_bits(uint32_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

// Makes and frees nodes; keeps a few freed leaves at hand, because a sliding window frees one for each it makes.
template <class Time, class Entry, class Agg>
class Pool {
   public:
    using LeafNode = Leaf<Time, Entry>;
    using InnerNode = Inner<Time, Agg>;

    Pool(uint32_t capacity, uint32_t fanout) : capacity_(capacity), fanout_(fanout) {}
    Pool(const Pool& other) : Pool(other.capacity_, other.fanout_) {}
    Pool& operator=(const Pool&) = delete;
    ~Pool() {
        for (void* leaf : spare_) std::free(leaf);
    }

    uint32_t capacity() const { return capacity_; }
    uint32_t fanout() const { return fanout_; }

    LeafNode* make_leaf() {
        void* memory = spare_.empty() ? allocate(leaf_bytes()) : spare_.back();
        if (!spare_.empty()) spare_.pop_back();
        LeafNode* leaf = new (memory) LeafNode;
        leaf->entries = reinterpret_cast<Entry*>(static_cast<char*>(memory) + entries_offset());
        std::uninitialized_default_construct_n(leaf->times(), capacity_);
        std::uninitialized_default_construct_n(leaf->entries, capacity_);
        return leaf;
    }

    void free_leaf(LeafNode* leaf) {
        std::destroy_n(leaf->times(), capacity_);
        std::destroy_n(leaf->entries, capacity_);
#ifndef SASH_SANITIZE
        if (spare_.size() < kSpare) return spare_.push_back(leaf);
#endif
        std::free(leaf);
    }

    InnerNode* make_inner() {
        size_t children = aligned(sizeof(InnerNode)), first = children + aligned(fanout_ * sizeof(Node*));
        size_t aggs = first + aligned(fanout_ * sizeof(Time));
        char* memory = static_cast<char*>(allocate(aggs + fanout_ * sizeof(Agg)));
        InnerNode* inner = new (memory) InnerNode;
        inner->children = reinterpret_cast<Node**>(memory + children);
        inner->first = reinterpret_cast<Time*>(memory + first);
        inner->aggs = reinterpret_cast<Agg*>(memory + aggs);
        std::uninitialized_default_construct_n(inner->first, fanout_);
        std::uninitialized_default_construct_n(inner->aggs, fanout_);
        return inner;
    }

    void free_inner(InnerNode* inner) {
        std::destroy_n(inner->first, fanout_);
        std::destroy_n(inner->aggs, fanout_);
        std::free(inner);
    }

    size_t leaf_bytes() const { return entries_offset() + capacity_ * sizeof(Entry); }

   private:
    static constexpr size_t kSpare = 16;
    static size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }
    size_t entries_offset() const { return sizeof(LeafNode) + aligned(capacity_ * sizeof(Time)); }
    static void* allocate(size_t bytes) {
        void* memory = std::malloc(bytes);
        if (!memory) throw std::bad_alloc();
        return memory;
    }

    uint32_t capacity_, fanout_;
    std::vector<void*> spare_;
};

}  // namespace sash::fiba
