// The finger B+-tree of all structures: it stores, inserts and evicts entries, and combines nothing.
//
// All entries are in leaves (up to `capacity`); an inner node has up to `fanout` children. There are no parent pointers:
// the two spines are arrays by level, and a search climbs them from the nearer finger, then descends and remembers its
// path: O(log d), d the distance from the nearer end.
//
//   finger leaves    at least one entry; an empty one is freed, never merged
//   other leaves     at least a quarter full
//   spine nodes      at least two children, so that a level up is always a step further in
//   other nodes      at least a quarter of the fanout, and two
//
// A change marks the summaries that cover it as stale, up to the spine: a child on a spine has none. It also notifies
// Aggregates, which may store more (structures/fiba_ends.hpp) or nothing. So no user code runs here except comparisons
// of places, which come first, and an insert or evict happens completely or not at all.
//
// If Nodes::counts, inner nodes store the number of entries below each child that is not on a spine. Those counts are
// always exact, and an append changes none of them.
//
// Parts determines where nodes, spines and aggregates are: in the tree itself (OwnParts), or elsewhere (SharedParts),
// if many trees share them.
#pragma once

#include <optional>

#include "monoids/folds.hpp"
#include "tree/nodes.hpp"

namespace sash::tree {

// The notifications of a tree, for Aggregates that store only summaries.
struct NoEnds {
    static constexpr bool summarizes = false;  // can they compute the summaries of a node that was split?
    template <class Inner>
    void summarize_pair(Inner*, uint32_t, uint32_t) {}
    void height_changed() {}
    void left_finger_moved() {}
    void right_finger_moved() {}
    template <class Leaf>
    void finger_rewritten(const Leaf*) {}
    void spine_changed(const Node*, uint32_t) {}
    void level_changed(uint32_t) {}
    template <class Leaf>
    void popped_front(const Leaf*) {}
    template <class Leaf>
    void changed_at(const Leaf*, uint32_t) {}
    template <class Leaf>
    void moved(const Leaf*, uint32_t, bool) {}
    template <class Leaf, class Item>
    void joined_at(const Leaf*, uint32_t, const Item&) {}
    template <class Leaf, class Item>
    void inserted(const Leaf*, uint32_t, bool, const Item&) {}
    template <class Item>
    void joined(const Node*, uint32_t, const Item&) {}
    struct Nothing {};
    Nothing keep_prefix() { return {}; }
    template <class Inner>
    void give_prefix(const Nothing&, Inner*, uint32_t) {}
};

// The path from a spine node at level `top` down to a place in a leaf. Above `top` the path is the spine itself.
template <class Nodes>
struct Path {
    typename Nodes::Leaf* leaf = nullptr;
    uint32_t position = 0;
    bool found = false;
    bool on_right = true;
    uint32_t top = 0;
    typename Nodes::Inner* nodes[kMostLevels];
    uint32_t index[kMostLevels];
};

template <class NodesType, class Aggregates>
struct OwnParts {
    using Nodes = NodesType;
    using Stored = Aggregates;
    using Spines = typename Nodes::Spines;

    template <class... Arguments>
    explicit OwnParts(const Nodes& nodes, Arguments&&... arguments)
        : nodes_(nodes), aggregates_(std::forward<Arguments>(arguments)..., nodes_, spines_) {}
    OwnParts(const OwnParts&) = delete;

   protected:
    Nodes nodes_;
    Spines spines_;
    Aggregates aggregates_;
};

template <class NodesType, class Aggregates>
struct SharedParts {
    using Nodes = NodesType;
    using Stored = Aggregates;
    using Spines = typename Nodes::Spines;

    SharedParts(Nodes& nodes, Spines& spines, Aggregates& aggregates)
        : nodes_(nodes), spines_(spines), aggregates_(aggregates) {}

   protected:
    Nodes& nodes_;
    Spines& spines_;
    Aggregates& aggregates_;
};

template <class Parts>
class Tree : public Parts {
    using Parts::nodes_, Parts::spines_, Parts::aggregates_;

   public:
    using Nodes = typename Parts::Nodes;
    using Aggregates = typename Parts::Stored;
    using Place = typename Nodes::Place;
    using Leaf = typename Nodes::Leaf;
    using Inner = typename Nodes::Inner;
    using Spines = typename Nodes::Spines;
    using Path = tree::Path<Nodes>;
    struct Slot {
        Inner* node;
        uint32_t index;
    };

    using Parts::Parts;

    // --- search ----------------------------------------------------------------------------------------

    size_t size() const { return spines_.size; }
    uint32_t height() const { return spines_.height(); }
    Leaf* left_leaf() const { return static_cast<Leaf*>(spines_.left(0)); }
    Leaf* right_leaf() const { return static_cast<Leaf*>(spines_.right(0)); }
    const Place& oldest() const { return nodes_.place(left_leaf(), left_leaf()->begin); }
    const Place& newest() const { return nodes_.place(right_leaf(), right_leaf()->end - 1); }
    const Nodes& nodes() const { return nodes_; }
    const Spines& spines() const { return spines_; }
    Nodes& nodes() { return nodes_; }
    Spines& spines() { return spines_; }
    auto& aggregates() { return aggregates_; }
    static Inner* inner(Node* node) { return static_cast<Inner*>(node); }

    bool is_finger(const Leaf* leaf) const { return leaf == spines_.left(0) || leaf == spines_.right(0); }
    bool on_spine(const Node* node, uint32_t level) const {
        return node == spines_.left(level) || node == spines_.right(level);
    }

    // Both spines are climbed in step until one has the place on its inner side.
    Path search(const Place& place) const {
        Path path;
        uint32_t level = 0;
        if (height() > 0 && !nodes_.less(place, nodes_.place(right_leaf(), right_leaf()->begin))) {
        } else if (height() > 0 && !nodes_.less(nodes_.place(left_leaf(), left_leaf()->end - 1), place)) {
            path.on_right = false;
        } else {
            for (level = 1; level < height(); ++level) {
                Inner *right = inner(spines_.right(level)), *left = inner(spines_.left(level));
                if (!nodes_.less(place, right->first[1])) break;
                if (nodes_.less(place, left->first[left->count - 1])) {
                    path.on_right = false;
                    break;
                }
            }
            level = std::min(level, height());
        }
        path.top = level;
        descend(path, path.on_right ? spines_.right(level) : spines_.left(level), level, place);
        return path;
    }

    // The rest of a path, from a node at `level` whose range contains the place.
    void descend(Path& path, Node* node, uint32_t level, const Place& place) const {
        bool far = level > 0;
        for (; level > 0; --level) {
            path.nodes[level] = inner(node);
            path.index[level] = child_of(inner(node), place);
            node = inner(node)->children[path.index[level]];
        }
        path.leaf = static_cast<Leaf*>(node);
        if (far) nodes_.prefetch(path.leaf);
        path.position = lower_bound(path.leaf, place);
        path.found = path.position < path.leaf->end && !nodes_.less(place, nodes_.place(path.leaf, path.position));
    }

    uint32_t child_of(const Inner* node, const Place& place) const { return tree::child_of(nodes_, node, place); }
    uint32_t lower_bound(const Leaf* leaf, const Place& place) const {
        return tree::lower_bound(nodes_, leaf, leaf->begin, leaf->end, place);
    }

    Slot slot(const Path& path, uint32_t level) const {
        if (level <= path.top) return {path.nodes[level], path.index[level]};
        Inner* node = inner(path.on_right ? spines_.right(level) : spines_.left(level));
        return {node, path.on_right ? node->count - 1 : 0};
    }

    Path finger_path(bool right) const {
        Path path;
        path.on_right = right;
        path.leaf = right ? right_leaf() : left_leaf();
        return path;
    }

    // Where the leaf after a path's leaf begins; null if it is the last one.
    const Place* edge_after(const Path& path) const {
        for (uint32_t level = 1; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (at.index + 1 < at.node->count) return &at.node->first[at.index + 1];
        }
        return nullptr;
    }

    // --- stale summaries -------------------------------------------------------------------------------

    // The entry at `position` has another value; nothing has moved.
    void mark_changed_at(const Path& path, uint32_t position) {
        if (is_finger(path.leaf))
            aggregates_.changed_at(path.leaf, position);
        else
            mark_stale(path, 1);
    }

    // `more` was merged into the entry of a path.
    template <class Item>
    void mark_merged(const Path& path, const Item& more) {
        if (!aggregates_.joins())
            mark_changed_at(path, path.position);
        else if (is_finger(path.leaf))
            aggregates_.joined_at(path.leaf, path.position, more);
        else
            join_known(path, more);
    }

    // If order does not matter, a new entry joins all valid summaries above it.
    template <class Item>
    void join_known(const Path& path, const Item& item) {
        for (uint32_t level = 1; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (!at.node->is_valid(at.index)) return;  // then all above it are stale too
            aggregates_.join(at.node, at.index, item);
            if (on_spine(at.node, level)) return aggregates_.joined(at.node, level, item);
        }
    }

    // Marks the summaries that cover the path, from `level` up to the spine.
    SASH_RARE void mark_stale(const Path& path, uint32_t level) {
        for (; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (on_spine(at.node, level)) {
                nodes_.set_stale(at.node, at.index);
                return aggregates_.spine_changed(at.node, level);
            }
            if (!at.node->is_valid(at.index)) return;  // then all above it are stale already
            nodes_.set_stale(at.node, at.index);
        }
    }

    // A node's children have changed.
    void mark_changed(const Path& path, Inner* node, uint32_t level) {
        if (on_spine(node, level))
            aggregates_.spine_changed(node, level);
        else
            mark_stale(path, level + 1);
    }

    // --- insert ----------------------------------------------------------------------------------------

    // Appends an entry after the newest; `write(leaf, i)` stores it.
    template <class Write>
    void append(const Place& place, Write&& write) {
        Leaf* leaf = right_leaf();
        if (is_full(leaf)) leaf = room_at_end(place);
        write(leaf, leaf->end);
        ++leaf->end;
        ++spines_.size;
        ++spines_.appends;
    }

    // The same for many: returns slots after the newest entry, at least one; appended() says how many were filled.
    std::pair<Leaf*, uint32_t> slots_at_end(const Place& place) {
        Leaf* leaf = right_leaf();
        if (is_full(leaf)) leaf = room_at_end(place);
        uint32_t limit = std::max(leaf->begin + nodes_.append_limit(), leaf->end + 1);
        return {leaf, std::min(nodes_.room(leaf), limit) - leaf->end};
    }
    void appended(Leaf* leaf, uint32_t count) {
        leaf->end += count;
        spines_.size += count;
        spines_.appends += count;
    }

    // Inserts an entry where a path leads; `write(leaf, i)` stores it and returns the item for summaries.
    template <class Write>
    void insert_at(Path& path, const Place& place, Write&& write) {
        if constexpr (Nodes::grows)
            if (path.leaf->count() == nodes_.room(path.leaf)) make_space(path, place);
        Leaf* leaf = path.leaf;
        uint32_t position = path.position;
        bool split = leaf->count() == nodes_.capacity();
        if (split) {
            Leaf* fresh = split_leaf(path);  // which also marks the summaries of both halves
            if (position > leaf->end) {
                position -= leaf->end;
                leaf = fresh;
            }
        }
        bool before = make_room(leaf, position);
        const auto& item = write(leaf, position);
        ++spines_.size;
        if (is_finger(leaf))
            aggregates_.inserted(leaf, position, before, item);
        else if (!split)
            aggregates_.joins() ? join_known(path, item) : mark_stale(path, 1);
        else if (Aggregates::summarizes && aggregates_.joins())
            join_known(search(nodes_.place(leaf, position)), item);  // nodes have moved
        if constexpr (Nodes::counts) {
            if (split) path = search(place);
            add_count(path, 1, 1);
        }
    }

    Leaf* start_if_empty() {
        if (!spines_.root()) spines_.reset(nodes_.make_leaf(1));
        return left_leaf();
    }

    // --- evict -----------------------------------------------------------------------------------------

    void evict_at(const Path& path) {
        Leaf* leaf = path.leaf;
        if (!is_finger(leaf)) mark_stale(path, 1);
        if constexpr (Nodes::counts) add_count(path, 1, -1);
        close_gap(leaf, path.position);
        --spines_.size;
        if (leaf->begin == leaf->end && leaf == left_leaf())
            left_emptied();
        else if (leaf->begin == leaf->end && leaf == right_leaf())
            right_emptied();
        else if (!is_finger(leaf) && leaf->count() < least_leaf())
            mend_leaf(path);
    }

    void evict_oldest() {
        Leaf* leaf = left_leaf();
        nodes_.clear_entries(leaf, leaf->begin, leaf->begin + 1);
        ++leaf->begin;
        --spines_.size;
        aggregates_.popped_front(leaf);
        if (leaf->begin == leaf->end) left_emptied();
    }

    // --- batches: bulk.hpp ---------------------------------------------------------------------------------

    template <class Rows, class Scratch>
    bool merge_group(Path& path, const Rows& rows, size_t from, size_t stop, Scratch& scratch);
    template <class Rows>
    size_t end_of_group(const Path& path, const Rows& rows, size_t from) const;
    template <class Scratch>
    void spread(Path& path, Scratch& scratch);
    size_t evict_until(const Place& edge, bool inclusive);

    // --- counts: counts.hpp ----------------------------------------------------------------------------

    size_t before(const Path& path) const;
    size_t after(const Path& path) const;
    size_t rank(const Path& path) const;
    Path at_rank(size_t rank) const;
    size_t count_below(const Inner* node, uint32_t index, uint32_t level) const;
    size_t total_below(const Inner* node, uint32_t level) const;

    // --- whole trees -------------------------------------------------------------------------------------

    // Frees all nodes; the tree is then as if it never had any.
    void free_all() {
        if (spines_.root()) free_below(spines_.root(), height());
        spines_.reset(nullptr);
        spines_.size = 0;
        spines_.appends = 0;
    }

    void free_below(Node* node, uint32_t level) {
        if (level == 0) return nodes_.free_leaf(static_cast<Leaf*>(node));
        for (uint32_t i = 0; i < inner(node)->count; ++i) free_below(inner(node)->children[i], level - 1);
        nodes_.free_inner(inner(node));
    }

    template <class Visit>
    SASH_COLD bool scan_on(Node* node, uint32_t level, const Place* start, Visit& visit) const {
        if (level == 0) return visit(static_cast<Leaf*>(node));
        const Inner* at = inner(node);
        for (uint32_t i = start ? child_of(at, *start) : 0; i < at->count; ++i, start = nullptr)
            if (!scan_on(at->children[i], level - 1, start, visit)) return false;
        return true;
    }
    template <class Visit>
    SASH_COLD bool scan_back(Node* node, uint32_t level, const Place* stop, Visit& visit) const {
        if (level == 0) return visit(static_cast<Leaf*>(node));
        const Inner* at = inner(node);
        for (uint32_t i = stop ? child_of(at, *stop) + 1 : at->count; i-- > 0; stop = nullptr)
            if (!scan_back(at->children[i], level - 1, stop, visit)) return false;
        return true;
    }
    // Visits every leaf in order.
    template <class Visit>
    void each_leaf(Visit&& visit) const {
        auto all = [&](Leaf* leaf) { return visit(leaf), true; };
        if (size()) scan_on(spines_.root(), height(), nullptr, all);
    }

    // Visits every place, of entries and of the separators in nodes, so that it can be renamed without changing order.
    template <class Visit>
    void each_place(Visit&& visit) {
        if (size()) each_place_below(spines_.root(), height(), visit);
    }

    // Frees memory that a tree of one leaf no longer needs.
    void shrink_leaf() {
        if constexpr (Nodes::grows) {
            if (height() > 0 || !spines_.root()) return;
            Path path = finger_path(true);
            uint32_t wanted = std::max(1u, 2 * path.leaf->count());
            if (nodes_.room(path.leaf) >= 2 * wanted && nodes_.room(path.leaf) > 4) resize(path, wanted);
        }
    }

   private:
    template <class Visit>
    void each_place_below(Node* node, uint32_t level, Visit& visit) {
        if (level == 0) {
            auto* leaf = static_cast<Leaf*>(node);
            for (uint32_t i = leaf->begin; i < leaf->end; ++i) visit(const_cast<Place&>(nodes_.place(leaf, i)));
            return;
        }
        for (uint32_t i = 0; i < inner(node)->count; ++i) {
            if (i) visit(inner(node)->first[i]);
            each_place_below(inner(node)->children[i], level - 1, visit);
        }
    }

    uint32_t least_leaf() const { return std::max(1u, nodes_.capacity() / 4); }
    uint32_t least_inner() const { return std::max(2u, nodes_.fanout() / 4); }
    bool is_root(uint32_t level) const { return level == height(); }

    bool is_full(const Leaf* leaf) const {
        if constexpr (Nodes::grows)
            return leaf->end == nodes_.room(leaf) || leaf->count() >= nodes_.append_limit();
        else
            return leaf->end == nodes_.capacity();
    }

    // --- room and splits: splits.hpp --------------------------------------------------------------------

    SASH_RARE Leaf* room_at_end(const Place& place);
    Leaf* larger_end(Leaf* leaf);
    void resize(Path& path, uint32_t wanted);
    SASH_RARE void make_space(Path& path, const Place& place);
    void stale_pair(const Path& path, Inner* node, uint32_t left);
    SASH_RARE void start_leaf(Leaf* full, const Place& place);
    bool make_room(Leaf* leaf, uint32_t& position);
    SASH_RARE Leaf* split_leaf(const Path& path);
    SASH_RARE void add_leaf(const Path& path, Leaf* fresh, Place edge, bool appending, size_t more = 0);
    void grow(Node* left, Node* right, Place edge);
    SASH_RARE void add_child(const Path& path, uint32_t level, Node* child, Place edge, bool appending, size_t more);

    // --- counts: counts.hpp ----------------------------------------------------------------------------

    void descend_to(Path& path, Inner* node, uint32_t child, uint32_t level, size_t rank) const;
    void recount(Inner* node, uint32_t index, uint32_t level);
    void add_count(const Path& path, uint32_t level, int64_t more);

    // --- removal and merges: merges.hpp -----------------------------------------------------------------

    void close_gap(Leaf* leaf, uint32_t position);
    SASH_RARE void left_emptied();
    SASH_RARE void right_emptied();
    void reset_leaf(Leaf* leaf);
    SASH_RARE void mend_leaf(const Path& path);
    Leaf* with_whole_room(Inner* parent, uint32_t index);
    void merge_leaves(Inner* parent, uint32_t left, Leaf* a, Leaf* b);
    void share_entries(Inner* parent, uint32_t left, Leaf* a, Leaf* b);
    void slide_to(Leaf* leaf, uint32_t to);
    void child_removed(const Path& path, uint32_t level);
    void shrink();
    SASH_RARE void mend_inner(const Path& path, uint32_t level);
    void merge_inner(Inner* parent, uint32_t left, Inner* a, Inner* b, uint32_t level);
    void share_children(Inner* parent, uint32_t left, Inner* a, Inner* b);

    // --- batches: bulk.hpp ------------------------------------------------------------------------------

    size_t clear();
    bool holds_edge(uint32_t level, const Place& edge) const;
    void drop_children(uint32_t level, const Place& edge);
    uint32_t first_after(const Place& edge, bool inclusive) const;
    void drop_until(uint32_t stays);
    void mend_left_spine(uint32_t top);
    size_t free_counted(Node* node, uint32_t level);
};

}  // namespace sash::tree

#include "tree/counts.hpp"
#include "tree/merges.hpp"
#include "tree/splits.hpp"
