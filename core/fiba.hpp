// `fiba`: the paper's finger search, lazy rebalancing and position-aware aggregates in a layout of our own.
//
// Shape. All entries are in leaves (up to `capacity`); an inner node (up to `fanout` children) stores its children's
// aggregates and the times that part them. There are no parent pointers: the two spines are arrays by level, and a
// search climbs them from the nearer finger, then descends and remembers its path. Leaves have level 0.
//
//   finger leaves    any number of entries above none; an empty one is freed, never merged
//   other leaves     at least a quarter full
//   spine nodes      at least two children, so that a level up is always a step further into the window
//   other nodes      at least a quarter of the fanout, and two
//
// Aggregates (fiba_aggregates.hpp) are never touched here, only marked stale: an update moves entries, a query repairs
// what updates have left behind. So nothing here runs a user's code except comparisons of times, which come first, and
// an insert or evict happens wholly or not at all. The argument for the bounds is in docs/algorithm.md.
#pragma once

#include "fiba_aggregates.hpp"

namespace sash {

template <class TimeType, class MonoidType>
class Fiba {
   public:
    using Time = TimeType;
    using Monoid = MonoidType;
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    // What need not be moved is passed as it is; the rest is moved once, to where it stays.
    using Given = std::conditional_t<std::is_trivially_copyable_v<Entry>, Entry, Entry&&>;
    using Node = fiba::Node;
    using Leaf = fiba::Leaf<Time, Entry>;
    using Inner = fiba::Inner<Time, Agg>;
    using Aggregates = fiba::Aggregates<Time, Monoid>;

    static constexpr const char* name = "fiba";
    static constexpr bool any_order = true;
    static constexpr bool ranges = true;
    static constexpr bool updates_run_no_code = true;

    Fiba(Monoid monoid, const Options& options)
        : pool_(options.leaf_capacity ? options.leaf_capacity : Monoid::leaf_capacity,
                options.fanout ? options.fanout : Monoid::fanout),
          least_leaf_(std::max(1u, pool_.capacity() / 4)),
          least_inner_(std::max(2u, pool_.fanout() / 4)),
          spines_(),
          aggregates_(std::move(monoid), spines_, pool_.capacity()) {}
    ~Fiba() {
        if (spines_.root()) free_below(spines_.root(), height());
    }
    Fiba(const Fiba& other)
        : pool_(other.pool_),
          least_leaf_(other.least_leaf_),
          least_inner_(other.least_inner_),
          size_(other.size_),
          spines_(),
          aggregates_(other.aggregates_, spines_) {
        if (other.spines_.root()) spines_.reset(copied(other.spines_.root(), other.height()), other.height());
        aggregates_.forget();
    }
    Fiba& operator=(const Fiba&) = delete;

    Monoid& monoid() { return aggregates_.monoid(); }
    size_t size() const { return size_; }
    uint64_t spent() const { return 0; }
    uint32_t height() const { return spines_.height; }
    const Node* root() const { return size_ ? spines_.root() : nullptr; }
    const Time& oldest() const { return left_leaf()->front(); }
    const Time& newest() const { return right_leaf()->back(); }
    void require_order(const Time&) const {}

    Agg query() { return aggregates_.whole(); }
    void query_into(Agg& agg) { aggregates_.whole_into(agg); }
    bool query(const Range<Time>& range, Agg& agg) {
        if (!size_) return false;
        Fold<Monoid> fold(monoid());
        uint32_t level = covering_level(range);
        aggregates_.fold_range(covering_node(range, level), level, range, fold);
        if (fold.some()) agg = std::move(fold.get());
        return fold.some();
    }

    bool insert(Time time, Given entry) {
        if (size_ && less(newest(), time)) {
            append(std::move(time), std::move(entry));
            return true;
        }
        return insert_elsewhere(std::move(time), std::move(entry));
    }

    SASH_RARE bool insert_elsewhere(Time time, Given entry) {
        if (!spines_.root()) spines_.reset(pool_.make_leaf(), 0);
        Path path = search(time);
        if (path.found) {
            if (!monoid().merge(path.leaf->entries[path.position], entry)) return false;
            mark_merged(path, entry);
            return true;
        }
        insert_at(path, std::move(time), std::move(entry));
        return true;
    }

    bool evict(const Time& time) {
        if (!size_) return false;
        Path path = search(time);
        if (path.found) evict_at(path);
        return path.found;
    }

    void evict_oldest() {
        Leaf* leaf = left_leaf();
        fiba::clear_slot(leaf->times()[leaf->begin]);
        fiba::clear_slot(leaf->entries[leaf->begin]);
        ++leaf->begin;
        --size_;
        aggregates_.popped_front(leaf);
        if (leaf->begin == leaf->end) left_emptied();
    }

    bool contains(const Time& time) { return size_ && search(time).found; }

    // Batches: fiba_bulk.hpp.
    template <class Rows>
    bool insert_run(const Rows& rows, size_t& done);
    size_t evict_until(const Time& edge, bool inclusive);

    template <class Visit>
    void each_oldest(Visit&& visit) const {
        visit(left_leaf()->front(), left_leaf()->entries[left_leaf()->begin]);
    }

    template <class Visit>
    void scan(const Range<Time>& range, bool reverse, Visit&& visit) const {
        if (!size_) return;
        if (reverse)
            scan_back(spines_.root(), height(), range, visit);
        else
            scan_on(spines_.root(), height(), range, visit);
    }

    void check();
    template <class Visit>
    void visit(Visit&& f) const {
        if (spines_.root()) visit_below(spines_.root(), height(), f);
        aggregates_.visit(f);
    }

    // The time and entry that are present at this time, or nulls.
    std::pair<const Time*, const Entry*> find(const Time& time) const {
        if (!size_) return {};
        Path path = search(time);
        if (!path.found) return {};
        return {&path.leaf->times()[path.position], &path.leaf->entries[path.position]};
    }

    // What undoing needs. Comparing times may have been what failed, so objects are found by identity, wherever they
    // are; that is slow, and only ever follows an error.
    void evict_present(const Time& time) {
        Path path = path_to(time);
        evict_at(path);
    }
    void replace_present(const Time& time, Entry entry) {
        Path path = path_to(time);
        path.leaf->entries[path.position] = std::move(entry);
        mark_changed_at(path, path.position);
    }
    void push_front(Time time, Entry entry) {
        if (!spines_.root()) spines_.reset(pool_.make_leaf(), 0);
        Path path = finger_path(false);
        path.position = path.leaf->begin;
        insert_at(path, std::move(time), std::move(entry));
    }

    const typename Aggregates::Spines& spines() const { return spines_; }

   private:
    using Spines = typename Aggregates::Spines;

    // The way from a spine node at level `top` down to a place in a leaf. Above `top` the way is the spine itself.
    struct Path {
        Leaf* leaf = nullptr;
        uint32_t position = 0;
        bool found = false;
        bool on_right = true;
        uint32_t top = 0;
        Inner* nodes[fiba::kMostLevels];
        uint32_t index[fiba::kMostLevels];
    };
    struct Slot {
        Inner* node;
        uint32_t index;
    };

    Leaf* left_leaf() const { return static_cast<Leaf*>(spines_.left[0]); }
    Leaf* right_leaf() const { return static_cast<Leaf*>(spines_.right[0]); }
    Inner* inner(Node* node) const { return static_cast<Inner*>(node); }
    bool is_root(uint32_t level) const { return level == height(); }

    // --- search: O(log d) ----------------------------------------------------------------------------

    static uint32_t lower_bound(const Leaf* leaf, const Time& time) {
        const Time* at = leaf->times() + leaf->begin;
        uint32_t count = leaf->count();
        while (count > 0) {
            uint32_t half = count / 2;
            at = less(at[half], time) ? at + (count - half) : at;  // a move, not a jump, where times are numbers
            count = half;
        }
        return static_cast<uint32_t>(at - leaf->times());
    }

    // Both spines are climbed in step until one has the time on its inner side.
    Path search(const Time& time) const {
        Path path;
        uint32_t level = 0;
        if (height() > 0 && !less(time, right_leaf()->front())) {
        } else if (height() > 0 && !less(left_leaf()->back(), time)) {
            path.on_right = false;
        } else {
            for (level = 1; level < height(); ++level) {
                Inner *right = inner(spines_.right[level]), *left = inner(spines_.left[level]);
                if (!less(time, right->first[1])) break;
                if (less(time, left->first[left->count - 1])) {
                    path.on_right = false;
                    break;
                }
            }
            level = std::min(level, height());
        }
        Node* node = path.on_right ? spines_.right[level] : spines_.left[level];
        path.top = level;
        for (; level > 0; --level) {
            path.nodes[level] = inner(node);
            path.index[level] = fiba::child_of(inner(node), time);
            node = inner(node)->children[path.index[level]];
        }
        path.leaf = static_cast<Leaf*>(node);
        if (path.top > 0) prefetch(path.leaf);
        path.position = lower_bound(path.leaf, time);
        path.found = path.position < path.leaf->end && !less(time, path.leaf->times()[path.position]);
        return path;
    }

    // A leaf far from the ends is seldom in cache. Its search would fetch one line after the other; so all are asked for.
    void prefetch(const Leaf* leaf) const {
        constexpr uint32_t step = std::max<size_t>(1, 64 / sizeof(Time));
        for (uint32_t i = 0; i < pool_.capacity(); i += step) __builtin_prefetch(leaf->times() + i);
    }

    void prefetch_whole(const Leaf* leaf) const {
        const char* bytes = reinterpret_cast<const char*>(leaf);
        for (size_t at = 0; at < pool_.leaf_bytes(); at += 64) __builtin_prefetch(bytes + at);
    }

    Slot slot(const Path& path, uint32_t level) const {
        if (level <= path.top) return {path.nodes[level], path.index[level]};
        Inner* node = inner(path.on_right ? spines_.right[level] : spines_.left[level]);
        return {node, path.on_right ? node->count - 1 : 0};
    }

    // A present time, by comparison where that cannot fail, else by identity.
    Path path_to(const Time& time) const {
        if constexpr (!std::is_same_v<Time, Ref>) return search(time);
        Path path;
        path.top = height();
        path.found = identical_below(spines_.root(), height(), time, path);
        return path;
    }
    bool identical_below(Node* node, uint32_t level, const Time& time, Path& path) const {
        if constexpr (std::is_same_v<Time, Ref>) {
            if (level == 0) {
                path.leaf = static_cast<Leaf*>(node);
                for (uint32_t i = path.leaf->begin; i < path.leaf->end; ++i)
                    if (path.leaf->times()[path.position = i].get() == time.get()) return true;
                return false;
            }
            path.nodes[level] = inner(node);
            for (uint32_t i = 0; i < inner(node)->count; ++i) {
                path.index[level] = i;
                if (identical_below(inner(node)->children[i], level - 1, time, path)) return true;
            }
        }
        return false;
    }

    uint32_t covering_level(const Range<Time>& range) const {
        for (uint32_t level = 0; level < height(); ++level)
            if (right_covers(range, level) || left_covers(range, level)) return level;
        return height();
    }
    Node* covering_node(const Range<Time>& range, uint32_t level) const {
        bool right = level == height() || right_covers(range, level);
        return right ? spines_.right[level] : spines_.left[level];
    }
    bool right_covers(const Range<Time>& range, uint32_t level) const {
        const Time& edge = level ? inner(spines_.right[level])->first[1] : right_leaf()->front();
        return range.start && !less(*range.start, edge);
    }
    bool left_covers(const Range<Time>& range, uint32_t level) const {
        if (!range.stop) return false;
        const Inner* node = inner(spines_.left[level]);
        return level ? less(*range.stop, node->first[node->count - 1]) : !less(left_leaf()->back(), *range.stop);
    }

    // --- what an update leaves stale ------------------------------------------------------------------

    // The entry at `position` has another value; nothing has moved.
    void mark_changed_at(const Path& path, uint32_t position) {
        if (aggregates_.is_finger(path.leaf))
            aggregates_.changed_at(path.leaf, position);
        else
            mark_stale(path, 1);
    }

    void mark_merged(const Path& path, const Entry& more) {
        if (!aggregates_.commutes())
            mark_changed_at(path, path.position);
        else if (aggregates_.is_finger(path.leaf))
            aggregates_.joined_at(path.leaf, path.position, more);
        else
            join_known(path, more);
    }

    // Where order does not matter, an entry that comes in below joins whatever is known above it.
    void join_known(const Path& path, const Entry& entry) {
        for (uint32_t level = 1; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (!at.node->is_valid(at.index)) return;  // and then nothing above it is known either
            monoid().append_entry(at.node->aggs[at.index], entry);
            if (aggregates_.on_spine(at.node, level)) return aggregates_.joined(at.node, level, entry);
        }
    }

    // The aggregates that cover what `path` goes through below `level`, up to the spine.
    SASH_RARE void mark_stale(const Path& path, uint32_t level) {
        for (; level <= height(); ++level) {
            Slot at = slot(path, level);
            if (aggregates_.on_spine(at.node, level)) {
                at.node->set_stale(at.index);
                return aggregates_.spine_changed(at.node, level);
            }
            if (!at.node->is_valid(at.index)) return;  // and then all above it are stale already
            at.node->set_stale(at.index);
        }
    }

    // A node's children are not what they were.
    void mark_changed(const Path& path, Inner* node, uint32_t level) {
        if (aggregates_.on_spine(node, level))
            aggregates_.spine_changed(node, level);
        else
            mark_stale(path, level + 1);
    }

    // --- insert ------------------------------------------------------------------------------------------

    void append(Time time, Given entry) {
        Leaf* leaf = right_leaf();
        if (leaf->end == pool_.capacity()) leaf = room_at_end(time);
        leaf->times()[leaf->end] = std::move(time);
        leaf->entries[leaf->end] = std::move(entry);
        ++leaf->end;
        ++size_;
        ++appends_;
    }

    // A leaf that was filled by appends stays full, and the next one starts empty: the window is as dense as it can be.
    // One that was not is split in the middle, or else appends and evictions at a leaf's edge could make it every time.
    SASH_RARE Leaf* room_at_end(const Time& time) {
        Leaf* leaf = right_leaf();
        if (leaf->begin > 0 && leaf->begin >= pool_.capacity() / 2)
            slide_to(leaf, 0);
        else if (appends_ < pool_.capacity() / 2)
            split_leaf(finger_path(true));
        else
            start_leaf(leaf, time);
        appends_ = 0;
        return right_leaf();
    }

    SASH_RARE void start_leaf(Leaf* full, const Time& time) {
        const Agg* known = aggregates_.known_prefix();
        std::optional<Agg> agg = known ? std::optional<Agg>(*known) : std::nullopt;
        add_leaf(finger_path(true), pool_.make_leaf(), time, true);
        Inner* parent = inner(spines_.right[1]);
        if (!agg || full == left_leaf()) return;
        parent->aggs[parent->count - 2] = std::move(*agg);
        parent->set_valid(parent->count - 2);
    }

    Path finger_path(bool right) const {
        Path path;
        path.on_right = right;
        path.leaf = right ? right_leaf() : left_leaf();
        return path;
    }

    SASH_RARE void insert_at(const Path& path, Time time, Given entry) {
        Leaf* leaf = path.leaf;
        uint32_t position = path.position;
        if (leaf->count() == pool_.capacity()) {
            Leaf* fresh = split_leaf(path);  // which also marks what covers the two halves
            if (position > leaf->end) {
                position -= leaf->end;
                leaf = fresh;
            }
        } else if (!aggregates_.is_finger(leaf)) {
            if (aggregates_.commutes())
                join_known(path, entry);
            else
                mark_stale(path, 1);
        }
        make_room(leaf, position, entry);
        leaf->times()[position] = std::move(time);
        leaf->entries[position] = std::move(entry);
        ++size_;
    }

    // Opens a gap at `position` by moving the shorter side; `position` becomes the gap.
    void make_room(Leaf* leaf, uint32_t& position, const Entry& entry) {
        bool leftwards =
            leaf->begin > 0 && (leaf->end == pool_.capacity() || position - leaf->begin < leaf->end - position);
        Time* times = leaf->times();
        if (leftwards) {
            std::move(times + leaf->begin, times + position, times + leaf->begin - 1);
            std::move(leaf->entries + leaf->begin, leaf->entries + position, leaf->entries + leaf->begin - 1);
            --leaf->begin;
            --position;
        } else {
            std::move_backward(times + position, times + leaf->end, times + leaf->end + 1);
            std::move_backward(leaf->entries + position, leaf->entries + leaf->end, leaf->entries + leaf->end + 1);
            ++leaf->end;
        }
        aggregates_.inserted(leaf, position, leftwards, entry);
    }

    // The upper half of a full leaf moves into a new one behind it. Its entries begin at 0, as a full leaf's do.
    SASH_RARE Leaf* split_leaf(const Path& path) {
        Leaf *leaf = path.leaf, *fresh = pool_.make_leaf();
        uint32_t half = leaf->begin + (leaf->count() + 1) / 2;
        move_entries(leaf, half, leaf->end, fresh, 0);
        fresh->end = leaf->end - half;
        leaf->end = half;
        add_leaf(path, fresh, fresh->front(), false);
        return fresh;
    }

    static void move_entries(Leaf* from, uint32_t begin, uint32_t end, Leaf* to, uint32_t at) {
        std::move(from->times() + begin, from->times() + end, to->times() + at);
        std::move(from->entries + begin, from->entries + end, to->entries + at);
    }

    // Puts a leaf behind the one that `path` leads to; it holds times from `edge` on.
    SASH_RARE void add_leaf(const Path& path, Leaf* fresh, Time edge, bool appending) {
        if (height() == 0) return grow(path.leaf, fresh, std::move(edge));
        bool was_left = path.leaf == left_leaf(), was_right = path.leaf == right_leaf();
        add_child(path, 1, fresh, std::move(edge), appending);
        if (was_right) {
            spines_.right[0] = fresh;
            aggregates_.right_finger_moved();
        }
        if (was_left) aggregates_.left_finger_moved();
    }

    // --- inner nodes: a new child, splits upwards ------------------------------------------------------

    void grow(Node* left, Node* right, Time edge) {
        Inner* root = pool_.make_inner();
        root->children[0] = left;
        root->children[1] = right;
        root->first[1] = std::move(edge);
        root->count = 2;
        uint32_t level = ++spines_.height;
        spines_.left[level - 1] = left;
        spines_.right[level - 1] = right;
        spines_.left[level] = spines_.right[level] = root;
        aggregates_.height_changed();
    }

    // Puts `child` behind the child that `path` goes through at `level`.
    SASH_RARE void add_child(const Path& path, uint32_t level, Node* child, Time edge, bool appending) {
        Slot at = slot(path, level);
        if (at.node->count < pool_.fanout()) {
            open_slot(at.node, at.index + 1, child, std::move(edge));
            stale_children(path, level, at.node, at.index);
            return;
        }
        bool last = at.index + 1 == at.node->count;
        // An append split hands two children to the new node and leaves the old one nearly full.
        uint32_t keep = appending && last ? at.node->count - 1 : at.node->count / 2;
        Inner* fresh = pool_.make_inner();
        Time parting = at.node->first[keep];
        move_children(at.node, keep, at.node->count, fresh, 0);
        fresh->count = at.node->count - keep;
        at.node->count = keep;
        at.node->valid &= fiba::low_bits(keep);
        bool to_fresh = at.index >= keep;
        open_slot(to_fresh ? fresh : at.node, at.index + 1 - (to_fresh ? keep : 0), child, std::move(edge));
        (to_fresh ? fresh : at.node)->set_stale(at.index - (to_fresh ? keep : 0));

        bool on_right = spines_.right[level] == at.node;
        if (is_root(level)) {
            grow(at.node, fresh, std::move(parting));
            return;
        }
        add_child(path, level + 1, fresh, std::move(parting), appending);
        if (on_right) spines_.right[level] = fresh;
        aggregates_.level_changed(level);
    }

    // The child at `index` and its new neighbour are both stale, and so is what covers them.
    void stale_children(const Path& path, uint32_t level, Inner* node, uint32_t index) {
        node->set_stale(index);
        mark_changed(path, node, level);
    }

    void open_slot(Inner* node, uint32_t index, Node* child, Time edge) {
        uint32_t count = node->count;
        std::move_backward(node->children + index, node->children + count, node->children + count + 1);
        std::move_backward(node->first + index, node->first + count, node->first + count + 1);
        std::move_backward(node->aggs + index, node->aggs + count, node->aggs + count + 1);
        uint64_t low = node->valid & fiba::low_bits(index);
        node->valid = low | ((node->valid & ~fiba::low_bits(index)) << 1);
        node->children[index] = child;
        node->first[index] = std::move(edge);
        ++node->count;
    }

    // Moves children [begin, end) of one node to `at` in another, aggregates and all; counts are the caller's.
    static void move_children(Inner* from, uint32_t begin, uint32_t end, Inner* to, uint32_t at) {
        std::move(from->children + begin, from->children + end, to->children + at);
        std::move(from->first + begin, from->first + end, to->first + at);
        std::move(from->aggs + begin, from->aggs + end, to->aggs + at);
        uint64_t moved = (from->valid & fiba::low_bits(end)) >> begin;
        to->valid = (to->valid & fiba::low_bits(at)) | (moved << at);
    }

    void close_slot(Inner* node, uint32_t index) {
        uint32_t count = node->count;
        std::move(node->children + index + 1, node->children + count, node->children + index);
        std::move(node->first + index + 1, node->first + count, node->first + index);
        std::move(node->aggs + index + 1, node->aggs + count, node->aggs + index);
        uint64_t low = node->valid & fiba::low_bits(index);
        uint64_t high = index + 1 < 64 ? node->valid & ~fiba::low_bits(index + 1) : 0;
        node->valid = low | (high >> 1);
        fiba::clear_slot(node->first[count - 1]);
        fiba::clear_slot(node->aggs[count - 1]);
        --node->count;
    }

    // --- evict --------------------------------------------------------------------------------------------

    void evict_at(const Path& path) {
        Leaf* leaf = path.leaf;
        if (!aggregates_.is_finger(leaf)) mark_stale(path, 1);
        close_gap(leaf, path.position);
        --size_;
        if (leaf->begin == leaf->end && leaf == left_leaf())
            left_emptied();
        else if (leaf->begin == leaf->end && leaf == right_leaf())
            right_emptied();
        else if (!aggregates_.is_finger(leaf) && leaf->count() < least_leaf_)
            mend_leaf(path);
    }

    // Removes the entry at `position` by moving the shorter side over it.
    void close_gap(Leaf* leaf, uint32_t position) {
        Time* times = leaf->times();
        bool rightwards = position - leaf->begin < leaf->end - position - 1;
        if (rightwards) {
            std::move_backward(times + leaf->begin, times + position, times + position + 1);
            std::move_backward(leaf->entries + leaf->begin, leaf->entries + position, leaf->entries + position + 1);
            fiba::clear_slot(times[leaf->begin]);
            fiba::clear_slot(leaf->entries[leaf->begin]);
            ++leaf->begin;
        } else {
            std::move(times + position + 1, times + leaf->end, times + position);
            std::move(leaf->entries + position + 1, leaf->entries + leaf->end, leaf->entries + position);
            --leaf->end;
            fiba::clear_slot(times[leaf->end]);
            fiba::clear_slot(leaf->entries[leaf->end]);
        }
        aggregates_.moved(leaf, position, rightwards);
    }

    // An empty finger leaf is freed; its neighbour becomes the finger.
    SASH_RARE void left_emptied() {
        Leaf* leaf = left_leaf();
        if (height() == 0) return reset_leaf(leaf);
        Inner* parent = inner(spines_.left[1]);
        pool_.free_leaf(leaf);
        close_slot(parent, 0);
        parent->set_stale(0);
        spines_.left[0] = parent->children[0];
        if (parent->count > 1) prefetch_whole(static_cast<Leaf*>(parent->children[1]));  // the next to be emptied
        aggregates_.left_finger_moved();
        child_removed(finger_path(false), 1);
    }

    SASH_RARE void right_emptied() {
        Leaf* leaf = right_leaf();
        Inner* parent = inner(spines_.right[1]);
        pool_.free_leaf(leaf);
        close_slot(parent, parent->count - 1);
        parent->set_stale(parent->count - 1);
        spines_.right[0] = parent->children[parent->count - 1];
        appends_ = 0;
        aggregates_.right_finger_moved();
        child_removed(finger_path(true), 1);
    }

    void reset_leaf(Leaf* leaf) {
        leaf->begin = leaf->end = 0;
        appends_ = 0;
        aggregates_.finger_rewritten(leaf);
    }

    // A leaf that is no finger has become too thin: it joins a neighbour, or takes from it.
    SASH_RARE void mend_leaf(const Path& path) {
        Slot at = slot(path, 1);
        uint32_t left = at.index + 1 < at.node->count ? at.index : at.index - 1;
        Leaf* a = static_cast<Leaf*>(at.node->children[left]);
        Leaf* b = static_cast<Leaf*>(at.node->children[left + 1]);
        bool merge = a->count() + b->count() <= pool_.capacity() * 3 / 4;
        aggregates_.finger_rewritten(a);
        aggregates_.finger_rewritten(b);
        if (merge)
            merge_leaves(at.node, left, a, b);
        else
            share_entries(at.node, left, a, b);
        at.node->set_stale(left);
        if (!merge) at.node->set_stale(left + 1);
        mark_changed(path, at.node, 1);
        if (merge) child_removed(path, 1);
    }

    void merge_leaves(Inner* parent, uint32_t left, Leaf* a, Leaf* b) {
        if (a->end + b->count() > pool_.capacity()) slide_to(a, 0);
        move_entries(b, b->begin, b->end, a, a->end);
        a->end += b->count();
        if (b == right_leaf()) {
            spines_.right[0] = a;
            appends_ = 0;
        }
        pool_.free_leaf(b);
        close_slot(parent, left + 1);
    }

    void share_entries(Inner* parent, uint32_t left, Leaf* a, Leaf* b) {
        uint32_t total = a->count() + b->count(), keep = total / 2;
        if (a->count() > keep) {  // a's last ones go to the front of b
            uint32_t moved = a->count() - keep;
            slide_to(b, pool_.capacity() - b->count());
            b->begin -= moved;
            move_entries(a, a->end - moved, a->end, b, b->begin);
            a->end -= moved;
        } else {
            uint32_t moved = keep - a->count();
            slide_to(a, 0);
            move_entries(b, b->begin, b->begin + moved, a, a->end);
            a->end += moved;
            b->begin += moved;
        }
        parent->first[left + 1] = b->front();
    }

    // Moves a leaf's entries within it so that they begin at `to`.
    void slide_to(Leaf* leaf, uint32_t to) {
        if (to < leaf->begin) {
            std::move(leaf->times() + leaf->begin, leaf->times() + leaf->end, leaf->times() + to);
            std::move(leaf->entries + leaf->begin, leaf->entries + leaf->end, leaf->entries + to);
        } else {
            uint32_t end = to + leaf->count();
            std::move_backward(leaf->times() + leaf->begin, leaf->times() + leaf->end, leaf->times() + end);
            std::move_backward(leaf->entries + leaf->begin, leaf->entries + leaf->end, leaf->entries + end);
        }
        leaf->end = to + leaf->count();
        leaf->begin = to;
        aggregates_.finger_rewritten(leaf);
    }

    // --- inner nodes: a child less, merges upwards --------------------------------------------------------

    void child_removed(const Path& path, uint32_t level) {
        Slot at = slot(path, level);
        bool spine = aggregates_.on_spine(at.node, level);
        mark_changed(path, at.node, level);
        if (is_root(level)) {
            if (at.node->count == 1) shrink();
            return;
        }
        if (at.node->count < (spine ? 2 : least_inner_)) mend_inner(path, level);
    }

    void shrink() {
        Inner* root = inner(spines_.root());
        uint32_t level = --spines_.height;
        spines_.left[level] = spines_.right[level] = root->children[0];
        pool_.free_inner(root);
        aggregates_.height_changed();
    }

    SASH_RARE void mend_inner(const Path& path, uint32_t level) {
        Slot above = slot(path, level + 1);
        uint32_t left = above.index + 1 < above.node->count ? above.index : above.index - 1;
        Inner* a = inner(above.node->children[left]);
        Inner* b = inner(above.node->children[left + 1]);
        b->first[0] = above.node->first[left + 1];
        bool merge = a->count + b->count <= std::max(pool_.fanout() * 3 / 4, 3u);
        if (merge)
            merge_inner(above.node, left, a, b, level);
        else
            share_children(above.node, left, a, b);
        above.node->set_stale(left);
        if (!merge) above.node->set_stale(left + 1);
        aggregates_.level_changed(level);
        mark_changed(path, above.node, level + 1);
        if (merge) child_removed(path, level + 1);
    }

    void merge_inner(Inner* parent, uint32_t left, Inner* a, Inner* b, uint32_t level) {
        move_children(b, 0, b->count, a, a->count);
        a->count += b->count;
        if (b == spines_.right[level]) spines_.right[level] = a;
        pool_.free_inner(b);
        close_slot(parent, left + 1);
    }

    void share_children(Inner* parent, uint32_t left, Inner* a, Inner* b) {
        uint32_t total = a->count + b->count, keep = total / 2;
        if (a->count > keep) {
            uint32_t moved = a->count - keep;
            for (uint32_t i = 0; i < moved; ++i) open_slot(b, i, nullptr, Time());
            uint64_t held = b->valid;
            move_children(a, keep, a->count, b, 0);
            b->valid |= held;
            a->count = keep;
            a->valid &= fiba::low_bits(keep);
        } else {
            uint32_t moved = keep - a->count;
            move_children(b, 0, moved, a, a->count);
            a->count = keep;
            for (uint32_t i = 0; i < moved; ++i) close_slot(b, 0);
        }
        parent->first[left + 1] = b->first[0];
    }

    // --- batches: fiba_bulk.hpp -----------------------------------------------------------------------

    template <class Rows>
    size_t end_of_group(const Path& path, const Rows& rows, size_t from) const;
    const Time* edge_after(const Path& path) const;
    template <class Rows>
    bool merge_group(Path& path, const Rows& rows, size_t from, size_t stop);
    void spread(Path& path);
    template <class Rows>
    bool append_run(const Rows& rows, size_t& done);
    size_t clear();
    bool holds_edge(uint32_t level, const Time& edge) const;
    void drop_children(uint32_t level, const Time& edge);
    void drop_entries(const Time& edge, bool inclusive);
    void mend_left_spine(uint32_t top);
    size_t free_counted(Node* node, uint32_t level);

    // --- whole trees ----------------------------------------------------------------------------------------

    void free_below(Node* node, uint32_t level) {
        if (level == 0) return pool_.free_leaf(static_cast<Leaf*>(node));
        for (uint32_t i = 0; i < inner(node)->count; ++i) free_below(inner(node)->children[i], level - 1);
        pool_.free_inner(inner(node));
    }

    Node* copied(Node* node, uint32_t level) {
        if (level == 0) {
            Leaf *from = static_cast<Leaf*>(node), *to = pool_.make_leaf();
            to->begin = from->begin;
            to->end = from->end;
            std::copy(from->times() + from->begin, from->times() + from->end, to->times() + to->begin);
            for (uint32_t i = from->begin; i < from->end; ++i) to->entries[i] = Entry(from->entries[i]);
            return to;
        }
        Inner *from = inner(node), *to = pool_.make_inner();
        to->count = from->count;
        to->valid = from->valid;
        std::copy(from->first, from->first + from->count, to->first);
        std::copy(from->aggs, from->aggs + from->count, to->aggs);
        for (uint32_t i = 0; i < from->count; ++i) to->children[i] = copied(from->children[i], level - 1);
        return to;
    }

    template <class Visit>
    bool scan_on(Node* node, uint32_t level, const Range<Time>& range, Visit& visit) const {
        if (level == 0) {
            const Leaf* leaf = static_cast<Leaf*>(node);
            for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
                if (!range.after_start(leaf->times()[i])) continue;
                if (!range.before_stop(leaf->times()[i]) || !visit(leaf->times()[i], leaf->entries[i])) return false;
            }
            return true;
        }
        const Inner* at = inner(node);
        for (uint32_t i = range.start ? fiba::child_of(at, *range.start) : 0; i < at->count; ++i)
            if (!scan_on(at->children[i], level - 1, range, visit)) return false;
        return true;
    }

    template <class Visit>
    bool scan_back(Node* node, uint32_t level, const Range<Time>& range, Visit& visit) const {
        if (level == 0) {
            const Leaf* leaf = static_cast<Leaf*>(node);
            for (uint32_t i = leaf->end; i-- > leaf->begin;) {
                if (!range.before_stop(leaf->times()[i])) continue;
                if (!range.after_start(leaf->times()[i]) || !visit(leaf->times()[i], leaf->entries[i])) return false;
            }
            return true;
        }
        const Inner* at = inner(node);
        for (uint32_t i = range.stop ? fiba::child_of(at, *range.stop) + 1 : at->count; i-- > 0;)
            if (!scan_back(at->children[i], level - 1, range, visit)) return false;
        return true;
    }

    template <class Visit>
    void visit_below(Node* node, uint32_t level, Visit& f) const {
        if (level == 0) {
            const Leaf* leaf = static_cast<Leaf*>(node);
            for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
                visit_if_ref(leaf->times()[i], f);
                visit_if_ref(leaf->entries[i], f);
            }
            return;
        }
        for (uint32_t i = 0; i < inner(node)->count; ++i) {
            visit_if_ref(inner(node)->first[i], f);
            visit_if_ref(inner(node)->aggs[i], f);
            visit_below(inner(node)->children[i], level - 1, f);
        }
    }

    fiba::Pool<Time, Entry, Agg> pool_;
    uint32_t least_leaf_, least_inner_;
    size_t size_ = 0;
    uint32_t appends_ = 0;  // to the present right finger, since it became that
    Spines spines_;
    Aggregates aggregates_;
    std::vector<Time> run_times_;  // scratch of merge_group
    std::vector<Entry> run_entries_;
};

}  // namespace sash
