// The finger B+-tree under everything: where entries are, and how they come and go. It combines nothing.
//
// All entries are in leaves (up to `capacity`); an inner node has up to `fanout` children. There are no parent pointers:
// the two spines are arrays by level, and a search climbs them from the nearer finger, then descends and remembers its
// path: O(log d), d the distance from the nearer end.
//
//   finger leaves    any number of entries above none; an empty one is freed, never merged
//   other leaves     at least a quarter full
//   spine nodes      at least two children, so that a level up is always a step further in
//   other nodes      at least a quarter of the fanout, and two
//
// A change marks the summaries that cover it as stale, up to the spine and no further: a child on a spine has none. It
// tells its Aggregates what it did, who may keep more (structures/fiba_ends.hpp) or nothing. So nothing here runs a user's code
// except comparisons of places, which come first, and an insert or evict happens wholly or not at all.
//
// Where inner nodes count (Nodes::counts), they count the entries below each child that is not on a spine. Those counts
// are exact at all times, and an append touches none of them.
//
// Parts says where nodes, spines and aggregates are: in the tree itself (OwnParts), or elsewhere (SharedParts), where many
// trees have their nodes in common.
#pragma once

#include <optional>

#include "monoids/folds.hpp"
#include "tree/nodes.hpp"

namespace sash::tree {

// What a tree tells whoever keeps nothing beside summaries.
struct NoEnds {
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

// The way from a spine node at level `top` down to a place in a leaf. Above `top` the way is the spine itself.
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

    // --- looking ---------------------------------------------------------------------------------------

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

    // The rest of a path, from a node at `level` that holds the place or would.
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

    // Where the leaf after the one of a path begins; null: it is the last one.
    const Place* edge_after(const Path& path) const {
        for (uint32_t level = 1; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (at.index + 1 < at.node->count) return &at.node->first[at.index + 1];
        }
        return nullptr;
    }

    // --- what a change leaves stale --------------------------------------------------------------------

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

    // Where order does not matter, an entry that comes in below joins whatever is known above it.
    template <class Item>
    void join_known(const Path& path, const Item& item) {
        for (uint32_t level = 1; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (!at.node->is_valid(at.index)) return;  // and then nothing above it is known either
            aggregates_.join(at.node, at.index, item);
            if (on_spine(at.node, level)) return aggregates_.joined(at.node, level, item);
        }
    }

    // The summaries that cover what `path` goes through below `level`, up to the spine.
    SASH_RARE void mark_stale(const Path& path, uint32_t level) {
        for (; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (on_spine(at.node, level)) {
                nodes_.set_stale(at.node, at.index);
                return aggregates_.spine_changed(at.node, level);
            }
            if (!at.node->is_valid(at.index)) return;  // and then all above it are stale already
            nodes_.set_stale(at.node, at.index);
        }
    }

    // A node's children are not what they were.
    void mark_changed(const Path& path, Inner* node, uint32_t level) {
        if (on_spine(node, level))
            aggregates_.spine_changed(node, level);
        else
            mark_stale(path, level + 1);
    }

    // --- insert ----------------------------------------------------------------------------------------

    // Puts an entry behind the newest; `write(leaf, i)` puts it there.
    template <class Write>
    void append(const Place& place, Write&& write) {
        Leaf* leaf = right_leaf();
        if (is_full(leaf)) leaf = room_at_end(place);
        write(leaf, leaf->end);
        ++leaf->end;
        ++spines_.size;
        ++spines_.appends;
    }

    // The same for many: slots behind the newest entry, at least one, and then how many of them were filled.
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

    // Puts an entry where a path leads, and gives its slot to `write(leaf, i)`, which returns the item for summaries.
    template <class Write>
    void insert_at(Path& path, const Place& place, Write&& write) {
        if constexpr (Nodes::grows)
            if (path.leaf->count() == nodes_.room(path.leaf)) make_space(path, place);
        Leaf* leaf = path.leaf;
        uint32_t position = path.position;
        bool split = leaf->count() == nodes_.capacity();
        if (split) {
            Leaf* fresh = split_leaf(path);  // which also marks what covers the two halves
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

    // --- counts ------------------------------------------------------------------------------------------

    // How many entries are before, and how many at or after, the place where a path leads: O(log d) of that side.
    size_t before(const Path& path) const {
        size_t found = path.position - path.leaf->begin;
        for (uint32_t level = 1; level <= height(); ++level) {
            Slot at = slot(path, level);
            for (uint32_t i = 0; i < at.index; ++i) found += count_below(at.node, i, level);
            if (level >= path.top && !path.on_right) break;  // above it the left spine goes through first children
        }
        return found;
    }
    size_t after(const Path& path) const {
        size_t found = path.leaf->end - path.position;
        for (uint32_t level = 1; level <= height(); ++level) {
            Slot at = slot(path, level);
            for (uint32_t i = at.index + 1; i < at.node->count; ++i) found += count_below(at.node, i, level);
            if (level >= path.top && path.on_right) break;
        }
        return found;
    }
    // The number of entries before a path's place, counted from the nearer end.
    size_t rank(const Path& path) const { return path.on_right ? size() - after(path) : before(path); }

    size_t count_below(const Inner* node, uint32_t index, uint32_t level) const {
        Node* child = node->children[index];
        if (!on_spine(child, level - 1)) return node->counts[index];
        return level == 1 ? static_cast<Leaf*>(child)->count() : total_below(inner(child), level - 1);
    }
    size_t total_below(const Inner* node, uint32_t level) const {
        size_t total = 0;
        for (uint32_t i = 0; i < node->count; ++i) total += count_below(node, i, level);
        return total;
    }

    // --- whole trees -------------------------------------------------------------------------------------

    // Frees all nodes; the tree is then one that never had any.
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
    // Every leaf in order.
    template <class Visit>
    void each_leaf(Visit&& visit) const {
        auto all = [&](Leaf* leaf) { return visit(leaf), true; };
        if (size()) scan_on(spines_.root(), height(), nullptr, all);
    }

    // Every place that is held, of entries and of the edges between nodes, to be renamed without changing its order.
    template <class Visit>
    void each_place(Visit&& visit) {
        if (size()) each_place_below(spines_.root(), height(), visit);
    }

    // Gives back memory that a tree of one leaf has long not needed.
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

    // --- room --------------------------------------------------------------------------------------------

    // A leaf that was filled by appends stays full, and the next one starts empty: the tree is as dense as it can be. One
    // that was not is split in the middle, or else appends and evictions at a leaf's edge could make it every time.
    SASH_RARE Leaf* room_at_end(const Place& place) {
        Leaf* leaf = right_leaf();
        if constexpr (Nodes::grows)
            if (nodes_.room(leaf) < nodes_.capacity()) return larger_end(leaf);
        if (leaf->begin > 0 && leaf->begin >= nodes_.capacity() / 2)
            slide_to(leaf, 0);
        else if (spines_.appends >= nodes_.capacity() / 2)
            start_leaf(leaf, place);
        else if (leaf->end < nodes_.room(leaf))
            return leaf;  // what appends leave free in other leaves, for late entries
        else
            split_leaf(finger_path(true));
        spines_.appends = 0;
        return right_leaf();
    }

    Leaf* larger_end(Leaf* leaf) {
        if (leaf->begin > 0 && leaf->begin >= nodes_.room(leaf) / 2) {
            slide_to(leaf, 0);
            return leaf;
        }
        Path path = finger_path(true);
        resize(path, leaf->count() + 1);
        return path.leaf;
    }

    // The leaf of a path with room for so many entries, which begin at 0.
    void resize(Path& path, uint32_t wanted) {
        Leaf *old = path.leaf, *fresh = nodes_.resized(old, wanted);
        path.position -= std::min(path.position, old->begin);
        if (height() > 0) {
            Slot at = slot(path, 1);
            at.node->children[at.index] = fresh;
        }
        if (spines_.left(0) == old) spines_.left(0) = fresh;
        if (spines_.right(0) == old) spines_.right(0) = fresh;
        nodes_.free_leaf(old);
        path.leaf = fresh;
    }

    // A leaf that has no room grows, or shares with a neighbour that has; one that cannot is split by the caller.
    SASH_RARE void make_space(Path& path, const Place& place) {
        if (nodes_.room(path.leaf) < nodes_.capacity()) return resize(path, path.leaf->count() + 1);
        if (height() == 0 || is_finger(path.leaf)) return;
        Slot at = slot(path, 1);
        for (bool behind : {true, false}) {
            if (behind ? at.index + 1 == at.node->count : at.index == 0) continue;
            uint32_t left = behind ? at.index : at.index - 1;
            Leaf* a = static_cast<Leaf*>(at.node->children[left]);
            Leaf* b = static_cast<Leaf*>(at.node->children[left + 1]);
            Leaf* other = behind ? b : a;
            if (is_finger(other) || nodes_.room(other) < nodes_.capacity()) continue;
            if (other->count() > nodes_.capacity() * 3 / 4) continue;
            share_entries(at.node, left, a, b);
            stale_pair(path, at.node, left);
            path = search(place);
            return;
        }
    }

    void stale_pair(const Path& path, Inner* node, uint32_t left) {
        nodes_.set_stale(node, left);
        nodes_.set_stale(node, left + 1);
        recount(node, left, 1);
        recount(node, left + 1, 1);
        mark_changed(path, node, 1);
    }

    SASH_RARE void start_leaf(Leaf* full, const Place& place) {
        auto kept = aggregates_.keep_prefix();
        add_leaf(finger_path(true), nodes_.make_leaf(1), place, true);
        Inner* parent = inner(spines_.right(1));
        if (full != left_leaf()) aggregates_.give_prefix(kept, parent, parent->count - 2);
    }

    // Opens a gap at `position` by moving the shorter side; `position` becomes the gap. True: what is before it moved.
    bool make_room(Leaf* leaf, uint32_t& position) {
        uint32_t room = nodes_.room(leaf);
        bool leftwards = leaf->begin > 0 && (leaf->end == room || position - leaf->begin < leaf->end - position);
        if (leftwards) {
            nodes_.move_entries(leaf, leaf->begin, position, leaf, leaf->begin - 1);
            --leaf->begin;
            --position;
        } else {
            nodes_.move_entries(leaf, position, leaf->end, leaf, position + 1);
            ++leaf->end;
        }
        return leftwards;
    }

    // The upper half of a full leaf moves into a new one behind it.
    SASH_RARE Leaf* split_leaf(const Path& path) {
        Leaf *leaf = path.leaf, *fresh = nodes_.make_leaf(nodes_.capacity());
        uint32_t half = leaf->begin + (leaf->count() + 1) / 2;
        nodes_.move_entries(leaf, half, leaf->end, fresh, 0);
        fresh->end = leaf->end - half;
        leaf->end = half;
        add_leaf(path, fresh, nodes_.place(fresh, fresh->begin), false);
        return fresh;
    }

    // Puts a leaf behind the one that `path` leads to; it holds places from `edge` on, and `more` entries that are new.
    SASH_RARE void add_leaf(const Path& path, Leaf* fresh, Place edge, bool appending, size_t more = 0) {
        if (height() == 0) return grow(path.leaf, fresh, std::move(edge));
        bool was_left = path.leaf == left_leaf(), was_right = path.leaf == right_leaf();
        if (was_right) spines_.right(0) = fresh;
        add_child(path, 1, fresh, std::move(edge), appending, more);
        if (was_right) aggregates_.right_finger_moved();
        if (was_left) aggregates_.left_finger_moved();
    }

    // --- inner nodes: a new child, splits upwards ------------------------------------------------------

    void grow(Node* left, Node* right, Place edge) {
        Inner* root = nodes_.make_inner();
        root->children[0] = left;
        root->children[1] = right;
        root->first[1] = std::move(edge);
        root->count = 2;
        spines_.raise(left, right, root);
        aggregates_.height_changed();
    }

    // Puts `child` behind the child that `path` goes through at `level`.
    SASH_RARE void add_child(const Path& path, uint32_t level, Node* child, Place edge, bool appending, size_t more) {
        Slot at = slot(path, level);
        if (at.node->count < nodes_.fanout()) {
            open_slot(nodes_, at.node, at.index + 1, child, std::move(edge));
            nodes_.set_stale(at.node, at.index);
            recount(at.node, at.index, level);
            recount(at.node, at.index + 1, level);
            mark_changed(path, at.node, level);
            if (more && !on_spine(at.node, level)) add_count(path, level + 1, static_cast<int64_t>(more));
            return;
        }
        bool last = at.index + 1 == at.node->count;
        // An append split hands two children to the new node and leaves the old one nearly full.
        uint32_t keep = appending && last ? at.node->count - 1 : at.node->count / 2;
        Inner* fresh = nodes_.make_inner();
        Place parting = at.node->first[keep];
        move_children(nodes_, at.node, keep, at.node->count, fresh, 0);
        fresh->count = at.node->count - keep;
        at.node->count = keep;
        at.node->valid &= low_bits(keep);
        Inner* into = at.index >= keep ? fresh : at.node;
        uint32_t index = at.index - (at.index >= keep ? keep : 0);
        open_slot(nodes_, into, index + 1, child, std::move(edge));
        nodes_.set_stale(into, index);
        recount(into, index, level);
        recount(into, index + 1, level);

        bool on_right = spines_.right(level) == at.node;
        if (is_root(level)) {
            grow(at.node, fresh, std::move(parting));
            return;
        }
        // The spine first, so that the level above knows which of its children are on it.
        if (on_right) spines_.right(level) = fresh;
        add_child(path, level + 1, fresh, std::move(parting), appending, more);
        aggregates_.level_changed(level);
    }

    // --- counts ------------------------------------------------------------------------------------------

    // The count of child `index` is made again; for one on a spine it means nothing.
    void recount(Inner* node, uint32_t index, uint32_t level) {
        if constexpr (Nodes::counts) {
            Node* child = node->children[index];
            size_t count = level == 1 ? static_cast<Leaf*>(child)->count() : total_below(inner(child), level - 1);
            node->counts[index] = static_cast<uint32_t>(count);
        } else {
            (void)node, (void)index, (void)level;
        }
    }

    // So many more entries below what `path` goes through, from `level` up to the spine.
    void add_count(const Path& path, uint32_t level, int64_t more) {
        if constexpr (Nodes::counts)
            for (; level <= height(); ++level) {
                Slot at = slot(path, level);
                at.node->counts[at.index] = static_cast<uint32_t>(at.node->counts[at.index] + more);
                if (on_spine(at.node, level)) return;
            }
    }

    // --- gaps, and leaves that become thin ---------------------------------------------------------------

    // Removes the entry at `position` by moving the shorter side over it.
    void close_gap(Leaf* leaf, uint32_t position) {
        bool rightwards = position - leaf->begin < leaf->end - position - 1;
        if (rightwards) {
            nodes_.move_entries(leaf, leaf->begin, position, leaf, leaf->begin + 1);
            nodes_.clear_entries(leaf, leaf->begin, leaf->begin + 1);
            ++leaf->begin;
        } else {
            nodes_.move_entries(leaf, position + 1, leaf->end, leaf, position);
            --leaf->end;
            nodes_.clear_entries(leaf, leaf->end, leaf->end + 1);
        }
        aggregates_.moved(leaf, position, rightwards);
    }

    // An empty finger leaf is freed; its neighbour becomes the finger.
    SASH_RARE void left_emptied() {
        Leaf* leaf = left_leaf();
        if (height() == 0) return reset_leaf(leaf);
        Inner* parent = inner(spines_.left(1));
        nodes_.free_leaf(leaf);
        close_slot(nodes_, parent, 0);
        nodes_.set_stale(parent, 0);
        spines_.left(0) = parent->children[0];
        if (parent->count > 1)  // the next to be emptied
            nodes_.prefetch_whole(static_cast<Leaf*>(parent->children[1]));
        aggregates_.left_finger_moved();
        child_removed(finger_path(false), 1);
    }

    SASH_RARE void right_emptied() {
        Leaf* leaf = right_leaf();
        Inner* parent = inner(spines_.right(1));
        nodes_.free_leaf(leaf);
        close_slot(nodes_, parent, parent->count - 1);
        nodes_.set_stale(parent, parent->count - 1);
        spines_.right(0) = parent->children[parent->count - 1];
        spines_.appends = 0;
        aggregates_.right_finger_moved();
        child_removed(finger_path(true), 1);
    }

    void reset_leaf(Leaf* leaf) {
        leaf->begin = leaf->end = 0;
        spines_.appends = 0;
        aggregates_.finger_rewritten(leaf);
    }

    // A leaf that is not a finger has become too thin: it joins a neighbour, or takes from it.
    SASH_RARE void mend_leaf(const Path& path) {
        Slot at = slot(path, 1);
        uint32_t left = at.index + 1 < at.node->count ? at.index : at.index - 1;
        Leaf* a = static_cast<Leaf*>(at.node->children[left]);
        Leaf* b = static_cast<Leaf*>(at.node->children[left + 1]);
        if constexpr (Nodes::grows) {  // the last leaf may be small, and then it takes nothing
            if (nodes_.room(b) < nodes_.capacity()) b = with_whole_room(at.node, left + 1);
            if (nodes_.room(a) < nodes_.capacity()) a = with_whole_room(at.node, left);
        }
        bool merge = a->count() + b->count() <= nodes_.capacity() * 3 / 4;
        aggregates_.finger_rewritten(a);
        aggregates_.finger_rewritten(b);
        if (merge)
            merge_leaves(at.node, left, a, b);
        else
            share_entries(at.node, left, a, b);
        nodes_.set_stale(at.node, left);
        if (!merge) nodes_.set_stale(at.node, left + 1);
        recount(at.node, left, 1);
        if (!merge) recount(at.node, left + 1, 1);
        mark_changed(path, at.node, 1);
        if (merge) child_removed(path, 1);
    }

    Leaf* with_whole_room(Inner* parent, uint32_t index) {
        Leaf *old = static_cast<Leaf*>(parent->children[index]), *fresh = nodes_.resized(old, nodes_.capacity());
        parent->children[index] = fresh;
        if (spines_.left(0) == old) spines_.left(0) = fresh;
        if (spines_.right(0) == old) spines_.right(0) = fresh;
        nodes_.free_leaf(old);
        return fresh;
    }

    void merge_leaves(Inner* parent, uint32_t left, Leaf* a, Leaf* b) {
        if (a->end + b->count() > nodes_.capacity()) slide_to(a, 0);
        nodes_.move_entries(b, b->begin, b->end, a, a->end);
        a->end += b->count();
        if (b == right_leaf()) {
            spines_.right(0) = a;
            spines_.appends = 0;
        }
        nodes_.free_leaf(b);
        close_slot(nodes_, parent, left + 1);
    }

    void share_entries(Inner* parent, uint32_t left, Leaf* a, Leaf* b) {
        uint32_t total = a->count() + b->count(), keep = total / 2;
        if (a->count() > keep) {  // a's last ones go to the front of b
            uint32_t moved = a->count() - keep;
            slide_to(b, nodes_.capacity() - b->count());
            b->begin -= moved;
            nodes_.move_entries(a, a->end - moved, a->end, b, b->begin);
            a->end -= moved;
        } else {
            uint32_t moved = keep - a->count();
            slide_to(a, 0);
            nodes_.move_entries(b, b->begin, b->begin + moved, a, a->end);
            a->end += moved;
            b->begin += moved;
        }
        parent->first[left + 1] = nodes_.place(b, b->begin);
    }

    // Moves a leaf's entries within it so that they begin at `to`.
    void slide_to(Leaf* leaf, uint32_t to) {
        nodes_.move_entries(leaf, leaf->begin, leaf->end, leaf, to);
        leaf->end = to + leaf->count();
        leaf->begin = to;
        aggregates_.finger_rewritten(leaf);
    }

    // --- inner nodes: a child less, merges upwards --------------------------------------------------------

    void child_removed(const Path& path, uint32_t level) {
        Slot at = slot(path, level);
        bool spine = on_spine(at.node, level);
        mark_changed(path, at.node, level);
        if (is_root(level)) {
            if (at.node->count == 1) shrink();
            return;
        }
        if (at.node->count < (spine ? 2 : least_inner())) mend_inner(path, level);
    }

    void shrink() {
        Inner* root = inner(spines_.root());
        spines_.lower(root->children[0]);
        nodes_.free_inner(root);
        aggregates_.height_changed();
    }

    SASH_RARE void mend_inner(const Path& path, uint32_t level) {
        Slot above = slot(path, level + 1);
        uint32_t left = above.index + 1 < above.node->count ? above.index : above.index - 1;
        Inner* a = inner(above.node->children[left]);
        Inner* b = inner(above.node->children[left + 1]);
        b->first[0] = above.node->first[left + 1];
        bool merge = a->count + b->count <= std::max(nodes_.fanout() * 3 / 4, 3u);
        if (merge)
            merge_inner(above.node, left, a, b, level);
        else
            share_children(above.node, left, a, b);
        nodes_.set_stale(above.node, left);
        if (!merge) nodes_.set_stale(above.node, left + 1);
        recount(above.node, left, level + 1);
        if (!merge) recount(above.node, left + 1, level + 1);
        aggregates_.level_changed(level);
        mark_changed(path, above.node, level + 1);
        if (merge) child_removed(path, level + 1);
    }

    void merge_inner(Inner* parent, uint32_t left, Inner* a, Inner* b, uint32_t level) {
        move_children(nodes_, b, 0, b->count, a, a->count);
        a->count += b->count;
        if (b == spines_.right(level)) spines_.right(level) = a;
        nodes_.free_inner(b);
        close_slot(nodes_, parent, left + 1);
    }

    void share_children(Inner* parent, uint32_t left, Inner* a, Inner* b) {
        uint32_t total = a->count + b->count, keep = total / 2;
        if (a->count > keep) {
            uint32_t moved = a->count - keep;
            move_children(nodes_, b, 0, b->count, b, moved);
            uint64_t held = b->valid & ~low_bits(moved);
            move_children(nodes_, a, keep, a->count, b, 0);
            b->valid |= held;
            b->count += moved;
            a->count = keep;
            a->valid &= low_bits(keep);
        } else {
            uint32_t moved = keep - a->count;
            move_children(nodes_, b, 0, moved, a, a->count);
            a->count = keep;
            for (uint32_t i = 0; i < moved; ++i) close_slot(nodes_, b, 0);
        }
        parent->first[left + 1] = b->first[0];
    }

    size_t clear();
    bool holds_edge(uint32_t level, const Place& edge) const;
    void drop_children(uint32_t level, const Place& edge);
    uint32_t first_after(const Place& edge, bool inclusive) const;
    void drop_entries(const Place& edge, bool inclusive);
    void mend_left_spine(uint32_t top);
    size_t free_counted(Node* node, uint32_t level);
};

}  // namespace sash::tree
