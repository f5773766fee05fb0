// The paper's B-trees: FiBA exactly as published, and the classic augmented tree, which differ only in the policy.
//
// Every node of arity a has a - 1 timed entries; an inner node also a children between and around them.
// MIN_ARITY <= a <= MAX_ARITY = 2 * MIN_ARITY (the root: 2 <= a); all leaves have the same depth. Rebalancing happens
// after the change and works upwards; aggregate repair follows the direction of the aggregates.
//
// What a node's aggregate covers (Fingers):
//   elsewhere    up: its whole subtree
//   root         inner: its subtree less the first and the last child
//   left spine   its subtree less the first child, then its parent's aggregate (unless that is the root)
//   right spine  its parent's aggregate (unless that is the root), then its subtree less the last child
// so that a query reads left finger (x) root (x) right finger, and a change near an end repairs only what is near it.
// With Classic every aggregate is an up-aggregate and a query reads the root.
//
// The paper's pseudocode has two errors, corrected here and marked "erratum".
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "structures/contract.hpp"

namespace sash {

struct Fingers {
    static constexpr const char* name = "paper";
    static constexpr bool fingers = true;
};
struct Classic {
    static constexpr const char* name = "classic";
    static constexpr bool fingers = false;
};

template <class TimeType, class MonoidType, class Policy>
class BTree {
   public:
    using Time = TimeType;
    using Monoid = MonoidType;
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;

    static constexpr bool fingers = Policy::fingers;
    static constexpr const char* name = Policy::name;
    static constexpr bool any_order = true;
    static constexpr bool ranges = true;
    static constexpr bool updates_run_no_code = false;
    static constexpr bool runs = false;

    struct Node {
        Node* parent = nullptr;
        Node** children = nullptr;  // null in a leaf
        Time* times = nullptr;
        Entry* entries = nullptr;
        uint32_t arity = 1;
        uint32_t height = 0;  // of a leaf: 0
        uint64_t saved = 0;   // the change that has a copy of this node
        bool left_spine = false;
        bool right_spine = false;
        Agg agg{};

        bool is_leaf() const { return children == nullptr; }
        bool is_root() const { return parent == nullptr; }
        uint32_t count() const { return arity - 1; }
        // In the finger tree: neither the root nor on a spine. In the classic tree no flag is ever set.
        bool has_agg_up() const { return parent && !left_spine && !right_spine; }
        Node* first_child() const { return children[0]; }
        Node* last_child() const { return children[arity - 1]; }
    };

    BTree(Monoid monoid, const Options& options)
        : monoid_(std::move(monoid)), min_arity_(options.min_arity), max_arity_(2 * options.min_arity) {}
    ~BTree() {
        destroy_tree(root_);
        for (Node* node : spare_) std::free(node);
    }
    BTree(const BTree& other)
        : monoid_(other.monoid_),
          min_arity_(other.min_arity_),
          max_arity_(other.max_arity_),
          size_(other.size_),
          spent_(other.spent_) {
        if (!other.root_) return;
        root_ = copied(other.root_);
        reset_fingers();
    }
    BTree& operator=(const BTree&) = delete;

    Monoid& monoid() { return monoid_; }
    size_t size() const { return size_; }
    uint64_t spent() const { return spent_; }
    uint32_t min_arity() const { return min_arity_; }
    const Node* root() const { return size_ ? root_ : nullptr; }
    const Time& oldest() const { return left_finger_->times[0]; }
    const Time& newest() const { return right_finger_->times[right_finger_->count() - 1]; }
    void require_order(const Time&) const {}

    Agg query() {
        if constexpr (!fingers) return root_->agg;
        if (root_->is_leaf()) return root_->agg;
        Agg agg = left_finger_->agg;
        monoid_.append(agg, root_->agg);
        monoid_.append(agg, right_finger_->agg);
        return agg;
    }

    bool insert(Time time, Entry entry) {
        if (!root_) plant();
        Place place = search(time);
        Node* node = place.node;
        if (place.found) {
            touch(node);
            if (!monoid_.merge(node->entries[place.index], entry)) return false;
            repair_if_up(node);
            repair_aggs(node, node->left_spine, node->right_spine);
            return true;
        }
        touch(node);
        local_insert(node, place.index, std::move(time), std::move(entry));
        ++size_;
        Top top = rebalance_for_insert(node);
        repair_aggs(top.node, top.hit_left, top.hit_right);
        return true;
    }

    bool evict(const Time& time) {
        if (!size_) return false;
        Place place = search(time);
        if (!place.found) return false;
        evict_at(place.node, place.index);
        return true;
    }

    void evict_oldest() {
        if constexpr (fingers)
            evict_at(left_finger_, 0);
        else
            evict(Time(oldest()));
    }

    template <class Visit>
    void each_oldest(Visit&& visit) const {
        visit(left_finger_->times[0], left_finger_->entries[0]);
    }

    bool contains(const Time& time) { return size_ && search(time).found; }

    // --- range query: O(log d_from + log d_to + log n_sub) ---------------------------------------

    bool query(const Range<Time>& range, Agg& agg) {
        if (!size_) return false;
        Node* from = range.start ? search(*range.start).node : left_finger_;
        Node* to = range.stop ? search(*range.stop).node : right_finger_;
        Fold<Monoid> fold(monoid_);
        query_rec(common_ancestor(from, to), range, range.start.has_value(), range.stop.has_value(), fold);
        if (fold.some()) agg = std::move(fold.get());
        return fold.some();
    }

    template <class Visit>
    void scan(const Range<Time>& range, bool reverse, Visit&& visit) {
        if (!size_) return;
        if (reverse)
            scan_back(root_, range, visit);
        else
            scan_on(root_, range, visit);
    }

    // --- a change that happens or does not, where combining may raise ----------------------------

    void begin() {
        ++change_;
        before_ = {root_, left_finger_, right_finger_, size_, spent_};
    }
    void commit() {
        undo_.clear();
        created_.clear();
        for (Node* node : removed_) destroy(node);
        removed_.clear();
    }
    void rollback() {
        for (Saved& saved : undo_) restore(saved);
        undo_.clear();
        for (Node* node : created_) destroy(node);
        created_.clear();
        removed_.clear();
        root_ = before_.root;
        left_finger_ = before_.left_finger;
        right_finger_ = before_.right_finger;
        size_ = before_.size;
        spent_ = before_.spent;
    }

    // --- proof -----------------------------------------------------------------------------------

    SASH_COLD void check() {
        if (!root_) return require(size_ == 0, "a window without a root is empty");
        uint64_t combines = monoid_.combines;
        require(!root_->parent && !root_->left_spine && !root_->right_spine,
                "the root has no parent and no spine flag");
        require(check_node(root_, nullptr, nullptr, fingers, fingers) == size_, "the size is the number of entries");
        require(left_finger_ == leftmost(root_), "the left finger is the leftmost leaf");
        require(right_finger_ == rightmost(root_), "the right finger is the rightmost leaf");
        monoid_.combines = combines;
    }

    template <class Visit>
    void visit(Visit&& f) const {
        if (root_) visit_node(root_, f);
    }

    // The paper's potential: what a node of this arity must have saved up for its next split, merge or move.
    uint32_t coins(const Node* node) const {
        uint32_t a = node->arity;
        if (a == max_arity_ + 1) return 4;
        if (a == max_arity_) return 2;
        if (node->is_root()) return 0;
        if (a == min_arity_ - 1) return 2;
        return a == min_arity_ ? 1 : 0;
    }

   private:
    struct Place {
        Node* node;
        uint32_t index;
        bool found;
    };
    // Where rebalancing stopped, and which spines it reached. If the top has an up-aggregate it is already repaired.
    struct Top {
        Node* node;
        bool hit_left, hit_right;
        void meet(const Node* other) {
            hit_left = hit_left || other->left_spine;
            hit_right = hit_right || other->right_spine;
        }
    };
    struct Saved {
        Node* node;
        Node* parent;
        uint32_t arity;
        bool left_spine, right_spine;
        Agg agg;
        std::vector<Time> times;
        std::vector<Entry> entries;
        std::vector<Node*> children;
    };
    struct Before {
        Node *root, *left_finger, *right_finger;
        size_t size;
        uint64_t spent;
    };
    static constexpr size_t kSpareNodes = 64;

    // --- search ----------------------------------------------------------------------------------

    static Place local_search(Node* node, const Time& time) {
        uint32_t index = 0, count = node->count();
        while (index < count && less(node->times[index], time)) ++index;
        return {node, index, index < count && !less(time, node->times[index])};
    }

    static Place descend(Node* node, const Time& time) {
        Place place = local_search(node, time);
        while (!place.found && !place.node->is_leaf()) place = local_search(node = node->children[place.index], time);
        return place;
    }

    // Both spines are climbed in step until one of them has the time on its inner side, so the climb is as long as the
    // way to the nearer end: O(log d).
    Place search(const Time& time) {
        if constexpr (!fingers) return descend(root_, time);
        Node *left = left_finger_, *right = right_finger_;
        while (!right->is_root()) {
            if (!less(time, right->times[0])) return descend(right, time);
            if (!less(left->times[left->count() - 1], time)) return descend(left, time);
            right = right->parent;
            left = left->parent;
        }
        return descend(root_, time);
    }

    static Node* common_ancestor(Node* a, Node* b) {
        while (a != b) {
            if (a->height <= b->height) {
                bool level = a->height == b->height;
                a = a->parent;
                if (!level) continue;
                b = b->parent;
            } else {
                b = b->parent;
            }
        }
        return a;
    }

    static Node* leftmost(Node* node) {
        while (!node->is_leaf()) node = node->first_child();
        return node;
    }
    static Node* rightmost(Node* node) {
        while (!node->is_leaf()) node = node->last_child();
        return node;
    }

    // --- local changes ---------------------------------------------------------------------------

    void local_insert(Node* node, uint32_t index, Time time, Entry entry) {
        uint32_t count = node->count();
        std::move_backward(node->times + index, node->times + count, node->times + count + 1);
        std::move_backward(node->entries + index, node->entries + count, node->entries + count + 1);
        node->times[index] = std::move(time);
        node->entries[index] = std::move(entry);
        ++node->arity;
    }

    void local_evict(Node* node, uint32_t index) {
        uint32_t count = node->count();
        std::move(node->times + index + 1, node->times + count, node->times + index);
        std::move(node->entries + index + 1, node->entries + count, node->entries + index);
        clear_slot(node, count - 1);
        --node->arity;
    }

    // Slots beyond the count own no objects.
    static void clear_slot(Node* node, uint32_t index) {
        if constexpr (!std::is_trivially_destructible_v<Time>) node->times[index] = Time();
        if constexpr (!std::is_trivially_destructible_v<Entry>) node->entries[index] = Entry();
    }

    static void adopt(Node* node, uint32_t index, Node* child) {
        node->children[index] = child;
        child->parent = node;
    }

    uint32_t index_in_parent(const Node* node) const {
        uint32_t index = 0;
        while (node->parent->children[index] != node) ++index;
        return index;
    }

    // --- aggregates ------------------------------------------------------------------------------

    Agg local_agg(const Node* node) {
        Fold<Monoid> fold(monoid_);
        bool below_root = fingers && node->parent && node->parent->is_root();
        bool root = fingers && node->is_root();
        if (node->right_spine && !below_root) fold.append(node->parent->agg);
        if (node->is_leaf()) {
            for (uint32_t i = 0; i < node->count(); ++i) fold.append_entry(node->entries[i]);
        } else {
            if (!root && !node->left_spine) fold.append(node->first_child()->agg);
            for (uint32_t i = 0; i + 1 < node->count(); ++i) {
                fold.append_entry(node->entries[i]);
                fold.append(node->children[i + 1]->agg);
            }
            fold.append_entry(node->entries[node->count() - 1]);
            if (!root && !node->right_spine) fold.append(node->last_child()->agg);
        }
        if (node->left_spine && !below_root) fold.append(node->parent->agg);
        return std::move(fold.get());
    }

    void repair(Node* node) {
        touch(node);
        node->agg = node->count() ? local_agg(node) : Agg{};
    }
    void repair_if_up(Node* node) {
        if (node->has_agg_up()) repair(node);
    }

    void repair_aggs(Node* top, bool hit_left, bool hit_right) {
        if (top->has_agg_up()) {
            while (top->has_agg_up()) repair(top = top->parent);
        } else {
            repair(top);
        }
        if constexpr (!fingers) return;
        if (top->left_spine || (top->is_root() && hit_left))
            for (Node* left = top; !left->is_leaf();) repair(left = left->first_child());
        if (top->right_spine || (top->is_root() && hit_right))
            for (Node* right = top; !right->is_leaf();) repair(right = right->last_child());
    }

    // --- rebalancing after an insert -------------------------------------------------------------

    Top rebalance_for_insert(Node* node) {
        Top top{node, node->left_spine, node->right_spine};
        while (top.node->arity > max_arity_) {
            if (top.node->is_root()) {
                height_increase();
                top.hit_left = top.hit_right = true;
            }
            split(top.node);
            top.node = top.node->parent;
            top.meet(top.node);
        }
        repair_if_up(top.node);
        return top;
    }

    void height_increase() {
        Node* old = root_;
        touch(old);
        root_ = make_node(old->height + 1);
        adopt(root_, 0, old);
        old->left_spine = old->right_spine = fingers;
    }

    // Arity 2 * MIN_ARITY + 1 becomes MIN_ARITY + 1 on the left and MIN_ARITY on the right; one entry goes up.
    void split(Node* node) {
        ++spent_;
        Node* parent = node->parent;
        touch(parent);
        touch(node);
        Node* right = make_node(node->height);
        uint32_t middle = min_arity_;
        uint32_t count = node->count();
        std::move(node->times + middle + 1, node->times + count, right->times);
        std::move(node->entries + middle + 1, node->entries + count, right->entries);
        right->arity = node->arity - (middle + 1);
        if (!node->is_leaf())
            for (uint32_t i = 0; i < right->arity; ++i) move_child(node->children[middle + 1 + i], right, i);
        right->right_spine = std::exchange(node->right_spine, false);
        if (node == right_finger_) right_finger_ = right;

        uint32_t index = index_in_parent(node);
        std::move_backward(parent->children + index + 1, parent->children + parent->arity,
                           parent->children + parent->arity + 1);
        adopt(parent, index + 1, right);
        local_insert(parent, index, std::move(node->times[middle]), std::move(node->entries[middle]));
        for (uint32_t i = middle; i < count; ++i) clear_slot(node, i);
        node->arity = middle + 1;
        repair_if_up(node);
        repair_if_up(right);
    }

    void move_child(Node* child, Node* to, uint32_t index) {
        touch(child);
        adopt(to, index, child);
    }

    // --- rebalancing after an evict --------------------------------------------------------------

    void evict_at(Node* node, uint32_t index) {
        Top top = node->is_leaf() ? evict_leaf(node, index) : evict_inner(node, index);
        repair_aggs(top.node, top.hit_left, top.hit_right);
    }

    Top evict_leaf(Node* leaf, uint32_t index) {
        touch(leaf);
        local_evict(leaf, index);
        --size_;
        return rebalance_for_evict(leaf);
    }

    // A leaf's entry takes the place of the evicted one; the leaf is what shrinks.
    Top evict_inner(Node* node, uint32_t index) {
        touch(node);
        Node* right = node->children[index + 1];
        bool from_right = right->arity > min_arity_;
        Node* leaf = from_right ? leftmost(right) : rightmost(node->children[index]);
        uint32_t at = from_right ? 0 : leaf->count() - 1;
        uint32_t height = node->height;
        touch(leaf);
        node->times[index] = std::move(leaf->times[at]);
        node->entries[index] = std::move(leaf->entries[at]);
        Top top = evict_leaf(leaf, at);
        // A top that is the root, or higher than `node` was, has had it repaired on the way, or merged away.
        if (!top.node->is_root() && top.node->height < height)
            while (top.node != node) {
                top.node = top.node->parent;
                top.meet(top.node);
                repair_if_up(top.node);
            }
        return top;
    }

    Top rebalance_for_evict(Node* node) {
        Top top{node, node->left_spine, node->right_spine};
        while (!top.node->is_root() && top.node->arity < min_arity_) {
            Node* parent = top.node->parent;
            uint32_t index = index_in_parent(top.node);
            uint32_t left = index + 1 < parent->arity ? index : index - 1;  // the right sibling, where there is one
            Node* sibling = parent->children[left == index ? index + 1 : left];
            top.meet(sibling);  // erratum: the paper lets it meet the right spine only
            if (sibling->arity <= min_arity_) {
                Node* merged = merge(parent, left);
                top.node = parent;
                if (parent->is_root() && parent->arity == 1) top.node = height_decrease(merged);
            } else {
                move(parent, left, left == index);
                top.node = parent;
            }
            top.meet(top.node);
        }
        repair_if_up(top.node);
        return top;
    }

    // Child `left` takes over the entry between it and the next child, and all of that child.
    Node* merge(Node* parent, uint32_t left) {
        ++spent_;
        Node *node = parent->children[left], *gone = parent->children[left + 1];
        touch(parent);
        touch(node);
        touch(gone);
        uint32_t count = node->count();
        node->times[count] = std::move(parent->times[left]);
        node->entries[count] = std::move(parent->entries[left]);
        std::move(gone->times, gone->times + gone->count(), node->times + count + 1);
        std::move(gone->entries, gone->entries + gone->count(), node->entries + count + 1);
        if (!node->is_leaf())
            for (uint32_t i = 0; i < gone->arity; ++i) move_child(gone->children[i], node, node->arity + i);
        node->arity += gone->arity;
        node->left_spine = node->left_spine || gone->left_spine;
        node->right_spine = node->right_spine || gone->right_spine;
        if (gone == right_finger_) right_finger_ = node;

        std::move(parent->children + left + 2, parent->children + parent->arity, parent->children + left + 1);
        local_evict(parent, left);
        remove(gone);
        repair_if_up(node);
        return node;
    }

    // One entry moves up from the sibling, one moves down to the node, and a child moves over.
    void move(Node* parent, uint32_t left, bool from_right) {
        ++spent_;
        Node *a = parent->children[left], *b = parent->children[left + 1];
        touch(parent);
        touch(a);
        touch(b);
        if (from_right) {
            if (!a->is_leaf()) {
                move_child(b->first_child(), a, a->arity);
                std::move(b->children + 1, b->children + b->arity, b->children);
            }
            local_insert(a, a->count(), std::move(parent->times[left]), std::move(parent->entries[left]));
            parent->times[left] = std::move(b->times[0]);
            parent->entries[left] = std::move(b->entries[0]);
            local_evict(b, 0);
        } else {
            if (!b->is_leaf()) {
                std::move_backward(b->children, b->children + b->arity, b->children + b->arity + 1);
                move_child(a->last_child(), b, 0);
            }
            local_insert(b, 0, std::move(parent->times[left]), std::move(parent->entries[left]));
            parent->times[left] = std::move(a->times[a->count() - 1]);
            parent->entries[left] = std::move(a->entries[a->count() - 1]);
            local_evict(a, a->count() - 1);
        }
        repair_if_up(a);
        repair_if_up(b);
    }

    Node* height_decrease(Node* merged) {
        touch(merged);
        remove(root_);
        root_ = merged;
        merged->parent = nullptr;
        merged->left_spine = merged->right_spine = false;
        return merged;
    }

    // --- range query -----------------------------------------------------------------------------

    // `bounded_below` false stands for the paper's t_from = -infinity: all of this subtree is late enough.
    void query_rec(Node* node, const Range<Time>& range, bool bounded_below, bool bounded_above, Fold<Monoid>& fold) {
        if (!bounded_below && !bounded_above && (fingers ? node->has_agg_up() : true)) return fold.append(node->agg);
        auto after = [&](const Time& time) { return !bounded_below || range.after_start(time); };
        auto before = [&](const Time& time) { return !bounded_above || range.before_stop(time); };
        uint32_t count = node->count();
        for (uint32_t i = 0; i <= count; ++i) {
            // The child before entry i lies between its neighbouring entries.
            bool below = bounded_below && (i == 0 || !after(node->times[i - 1]));
            bool above = bounded_above && (i == count || !before(node->times[i]));
            bool meets = (i == 0 || !bounded_above || less(node->times[i - 1], *range.stop)) &&
                         (i == count || !bounded_below || less(*range.start, node->times[i]));
            // erratum: the paper's guard leaves the last but one child out
            if (!node->is_leaf() && meets) query_rec(node->children[i], range, below, above, fold);
            if (i < count && after(node->times[i]) && before(node->times[i])) fold.append_entry(node->entries[i]);
        }
    }

    template <class Visit>
    SASH_COLD bool scan_on(const Node* node, const Range<Time>& range, Visit& visit) {
        for (uint32_t i = 0; i <= node->count(); ++i) {
            bool skip = i < node->count() && !range.after_start(node->times[i]);
            if (skip) continue;
            if (!node->is_leaf() && !scan_on(node->children[i], range, visit)) return false;
            if (i == node->count()) break;
            if (!range.before_stop(node->times[i]) || !visit(node->times[i], node->entries[i])) return false;
        }
        return true;
    }

    template <class Visit>
    SASH_COLD bool scan_back(const Node* node, const Range<Time>& range, Visit& visit) {
        for (uint32_t i = node->count() + 1; i-- > 0;) {
            bool skip = i > 0 && !range.before_stop(node->times[i - 1]);
            if (!skip && !node->is_leaf() && !scan_back(node->children[i], range, visit)) return false;
            if (i == 0 || skip) continue;
            if (!range.after_start(node->times[i - 1]) || !visit(node->times[i - 1], node->entries[i - 1]))
                return false;
        }
        return true;
    }

    // --- nodes in memory -------------------------------------------------------------------------

    static constexpr size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }
    size_t bytes_of(bool leaf) const {
        size_t slots = max_arity_;  // one more than fits, while a split is due
        size_t children = leaf ? 0 : (slots + 1) * sizeof(Node*);
        return aligned(sizeof(Node)) + aligned(slots * sizeof(Time)) + aligned(slots * sizeof(Entry)) + children;
    }

    // Leaves are recycled: at the ends of a sliding window one dies for each that is born.
    void* allocate(bool leaf) {
        if (leaf && !spare_.empty()) {
            void* memory = spare_.back();
            spare_.pop_back();
            return memory;
        }
        void* memory = std::malloc(bytes_of(leaf));
        if (!memory) throw std::bad_alloc();
        return memory;
    }

    Node* new_node(uint32_t height) {
        char* memory = static_cast<char*>(allocate(height == 0));
        Node* node = new (memory) Node;
        memory += aligned(sizeof(Node));
        node->times = reinterpret_cast<Time*>(memory);
        memory += aligned(max_arity_ * sizeof(Time));
        node->entries = reinterpret_cast<Entry*>(memory);
        memory += aligned(max_arity_ * sizeof(Entry));
        if (height) node->children = reinterpret_cast<Node**>(memory);
        std::uninitialized_default_construct_n(node->times, max_arity_);
        std::uninitialized_default_construct_n(node->entries, max_arity_);
        node->height = height;
        return node;
    }

    Node* make_node(uint32_t height) {
        Node* node = new_node(height);
        if constexpr (Monoid::may_throw) {
            created_.push_back(node);
            node->saved = change_;  // a new node needs no copy: undoing drops it
        }
        return node;
    }

    void plant() {
        root_ = make_node(0);
        left_finger_ = right_finger_ = root_;
    }

    void destroy(Node* node) {
        std::destroy_n(node->times, max_arity_);
        std::destroy_n(node->entries, max_arity_);
        bool leaf = node->is_leaf();
        node->~Node();
#ifndef SASH_SANITIZE
        if (leaf && spare_.size() < kSpareNodes) return spare_.push_back(reinterpret_cast<Node*>(node));
#endif
        (void)leaf;
        std::free(node);
    }

    void remove(Node* node) {
        if constexpr (Monoid::may_throw)
            removed_.push_back(node);  // rollback() may still need its content
        else
            destroy(node);
    }

    void destroy_tree(Node* node) {
        if (!node) return;
        if (!node->is_leaf())
            for (uint32_t i = 0; i < node->arity; ++i) destroy_tree(node->children[i]);
        destroy(node);
    }

    SASH_COLD Node* copied(const Node* node) {
        Node* copy = new_node(node->height);
        std::copy(node->times, node->times + node->count(), copy->times);
        for (uint32_t i = 0; i < node->count(); ++i) copy->entries[i] = Entry(node->entries[i]);
        copy->arity = node->arity;
        copy->left_spine = node->left_spine;
        copy->right_spine = node->right_spine;
        copy->agg = node->agg;
        if (!node->is_leaf())
            for (uint32_t i = 0; i < node->arity; ++i) adopt(copy, i, copied(node->children[i]));
        return copy;
    }

    void reset_fingers() {
        left_finger_ = leftmost(root_);
        right_finger_ = rightmost(root_);
    }

    // Copies a node before its first change within a begin() ... commit().
    void touch(Node* node) {
        if constexpr (Monoid::may_throw) {
            if (node->saved == change_) return;
            node->saved = change_;
            uint32_t count = node->count();
            undo_.push_back({node, node->parent, node->arity, node->left_spine, node->right_spine, node->agg,
                             std::vector<Time>(node->times, node->times + count),
                             std::vector<Entry>(node->entries, node->entries + count),
                             node->is_leaf() ? std::vector<Node*>()
                                             : std::vector<Node*>(node->children, node->children + node->arity)});
        }
    }

    void restore(Saved& saved) {
        Node* node = saved.node;
        for (uint32_t i = 0; i < max_arity_; ++i) clear_slot(node, i);
        node->parent = saved.parent;
        node->arity = saved.arity;
        node->left_spine = saved.left_spine;
        node->right_spine = saved.right_spine;
        node->agg = std::move(saved.agg);
        std::move(saved.times.begin(), saved.times.end(), node->times);
        std::move(saved.entries.begin(), saved.entries.end(), node->entries);
        std::copy(saved.children.begin(), saved.children.end(), node->children);
    }

    // --- proof -----------------------------------------------------------------------------------

    SASH_COLD size_t check_node(Node* node, const Time* after, const Time* before, bool left, bool right) {
        check_shape(node, left, right);
        uint32_t count = node->count();
        for (uint32_t i = 0; i < count; ++i) {
            if (after) require(less(*after, node->times[i]), "times ascend");
            after = &node->times[i];
        }
        if (count && before) require(less(node->times[count - 1], *before), "times lie below the next entry above");
        size_t size = count;
        if (!node->is_leaf())
            for (uint32_t i = 0; i <= count; ++i) {
                const Node* child = node->children[i];
                require(child->parent == node, "a child knows its parent");
                require(child->height + 1 == node->height, "all leaves are equally deep");
                const Time* low = i ? &node->times[i - 1] : nullptr;
                const Time* high = i < count ? &node->times[i] : before;
                size += check_node(node->children[i], low, high, left && i == 0, right && i == count);
            }
        if (count) require(monoid().same(node->agg, local_agg(node)), "an aggregate is that of what it covers");
        return size;
    }

    SASH_COLD void check_shape(const Node* node, bool left, bool right) const {
        bool root = node->is_root();
        require(node->arity <= max_arity_, "no node is wider than MAX_ARITY");
        require(root ? node->arity >= (node->is_leaf() ? 1u : 2u) : node->arity >= min_arity_,
                "no node is narrower than MIN_ARITY, no inner root than 2");
        require(node->left_spine == (left && !root), "the left spine is flagged, and nothing else");
        require(node->right_spine == (right && !root), "the right spine is flagged, and nothing else");
        require(node->is_leaf() == (node->height == 0), "leaves have height 0");
    }

    template <class Visit>
    static void visit_node(const Node* node, Visit& f) {
        for (uint32_t i = 0; i < node->count(); ++i) {
            visit_if_ref(node->times[i], f);
            visit_if_ref(node->entries[i], f);
        }
        visit_if_ref(node->agg, f);
        if (!node->is_leaf())
            for (uint32_t i = 0; i < node->arity; ++i) visit_node(node->children[i], f);
    }

    Monoid monoid_;
    uint32_t min_arity_, max_arity_;
    Node* root_ = nullptr;
    Node* left_finger_ = nullptr;
    Node* right_finger_ = nullptr;
    size_t size_ = 0;
    uint64_t spent_ = 0;
    std::vector<Node*> spare_;

    uint64_t change_ = 0;
    Before before_{};
    std::vector<Saved> undo_;
    std::vector<Node*> created_, removed_;
};

template <class Time, class Monoid>
using PaperTree = BTree<Time, Monoid, Fingers>;
template <class Time, class Monoid>
using ClassicTree = BTree<Time, Monoid, Classic>;

}  // namespace sash
