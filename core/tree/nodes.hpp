// The common parts of all trees' nodes.
//
// All entries are in leaves; an inner node has its children, the places that separate them, and a summary of each
// child. A node has no pointer to its parent and does not store its level, which callers track; leaves have level 0.
//
// A family of nodes (typed_nodes.hpp, word_nodes.hpp) is the parameter of Tree:
//   Place, Leaf, Inner, Spines                     the types
//   capacity()  append_limit()  fanout()           the most entries of a leaf, the same for appends, the most children
//   counts                                         do inner nodes count the entries below each child?
//   grows                                          do leaves start small?
//   less(a, b)  place(leaf, i)                     the order, and the place of an entry in it
//   make_leaf(room)  free_leaf  make_inner  free_inner
//   room(leaf)  resized(leaf, room)                the entries that it has memory for; the same leaf with more or less
//   move_entries(from, begin, end, to, at)         also within one leaf; the caller updates the leaves' bounds
//   clear_entries(leaf, begin, end)                release the objects in these slots
//   move_more(from, begin, end, to, at)            move what an inner node stores of its children besides their places
//   set_stale(inner, i)                            mark child i's summary as invalid
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace sash::tree {

inline constexpr uint32_t kMostLevels = 48;  // every level at least doubles

struct Node {};

inline uint64_t low_bits(uint32_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

inline void* allocated(size_t bytes) {
    void* memory = std::malloc(bytes);
    if (!memory) throw std::bad_alloc();
    return memory;
}
// What an allocation takes: a header of eight bytes, and at least 32 in all.
inline size_t allocated_bytes(size_t bytes) { return bytes ? std::max<size_t>((bytes + 8 + 15) / 16 * 16, 32) : 0; }
inline size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

// `count` children; child i has places from first[i] up to first[i + 1]. Its summary is valid if bit i of `valid` is
// set. A child on a spine never has one: every append or eviction at that end would change it.
template <class Place>
struct alignas(16) InnerNode : Node {
    uint32_t count = 0;
    uint64_t valid = 0;
    Node** children = nullptr;
    Place* first = nullptr;

    bool is_valid(uint32_t i) const { return valid >> i & 1; }
    void set_valid(uint32_t i) { valid |= uint64_t{1} << i; }
};

// The child whose range contains a place: the last one that starts at or before it, or the first for older places.
template <class Nodes>
uint32_t child_of(const Nodes& nodes, const typename Nodes::Inner* node, const typename Nodes::Place& place) {
    uint32_t low = 1, high = node->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (nodes.less(place, node->first[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low - 1;
}

// The first entry of a leaf from `begin` to `end` that is not before a place; `end` where there is none.
template <class Nodes>
uint32_t lower_bound(const Nodes& nodes, const typename Nodes::Leaf* leaf, uint32_t begin, uint32_t end,
                     const typename Nodes::Place& place) {
    uint32_t at = begin, count = end - begin;
    while (count > 0) {
        uint32_t half = count / 2;
        // A move, not a jump, where places are numbers.
        at = nodes.less(nodes.place(leaf, at + half), place) ? at + (count - half) : at;
        count = half;
    }
    return at;
}

// Moves children [begin, end) of one node to `at` in another, or in the same one; the caller updates the counts. The
// valid bits of the children that `to` had from `at` on are lost.
template <class Nodes>
void move_children(Nodes& nodes, typename Nodes::Inner* from, uint32_t begin, uint32_t end, typename Nodes::Inner* to,
                   uint32_t at) {
    bool up = from == to && at > begin;
    auto move = [&](auto* source, auto* target) {
        if (up)
            std::move_backward(source + begin, source + end, target + at + (end - begin));
        else
            std::move(source + begin, source + end, target + at);
    };
    uint64_t moved = (from->valid & low_bits(end)) >> begin;
    move(from->children, to->children);
    move(from->first, to->first);
    nodes.move_more(from, begin, end, to, at);
    to->valid = (to->valid & low_bits(at)) | (at < 64 ? moved << at : 0);
}

// Inserts a child before the one at `index`, with no valid summary.
template <class Nodes>
void open_slot(Nodes& nodes, typename Nodes::Inner* node, uint32_t index, Node* child, typename Nodes::Place edge) {
    move_children(nodes, node, index, node->count, node, index + 1);
    node->valid &= ~(uint64_t{1} << index);
    node->children[index] = child;
    node->first[index] = std::move(edge);
    ++node->count;
}

template <class Nodes>
void close_slot(Nodes& nodes, typename Nodes::Inner* node, uint32_t index) {
    move_children(nodes, node, index + 1, node->count, node, index);
    --node->count;
    nodes.clear_child(node, node->count);
}

}  // namespace sash::tree
