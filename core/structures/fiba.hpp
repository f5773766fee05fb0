// `fiba`: the paper's finger search, lazy rebalancing and position-aware aggregates in a custom layout.
//
//   tree/         the entries: one finger B+-tree, which the rows of every key (keyed/rows.hpp) use too
//   summaries     one aggregate for each child that is not on a spine, repaired by queries
//   ends          finger stacks and spine aggregates, so that a query of the whole window reads three aggregates
//
// docs/algorithm.md proves the bounds.
#pragma once

#include "structures/fiba_check.hpp"
#include "structures/fiba_ends.hpp"
#include "structures/fiba_rounds.hpp"
#include "tree/bulk.hpp"
#include "tree/check.hpp"

namespace sash {

template <class TimeType, class MonoidType>
class Fiba {
   public:
    using Time = TimeType;
    using Monoid = MonoidType;
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    // Trivially copyable entries are passed by value; others are moved once, to their final place.
    using Given = std::conditional_t<std::is_trivially_copyable_v<Entry>, Entry, Entry&&>;
    using Node = tree::Node;
    using Ends = fiba::Ends<Time, Monoid>;
    using Nodes = typename Ends::Nodes;
    using Leaf = typename Nodes::Leaf;
    using Inner = typename Nodes::Inner;
    using Spines = typename Nodes::Spines;
    using Tree = tree::Tree<tree::OwnParts<Nodes, Ends>>;
    using Path = typename Tree::Path;

    static constexpr const char* name = "fiba";
    static constexpr bool any_order = true;
    static constexpr bool ranges = true;
    static constexpr bool updates_run_no_code = true;
    static constexpr bool runs = Ends::runs, runs_in_columns = Ends::runs_in_columns;

    Fiba(Monoid monoid, const Options& options)
        : tree_(Nodes(options.leaf_capacity ? options.leaf_capacity : best_leaf_capacity(monoid),
                      options.fanout ? options.fanout : best_fanout(monoid)),
                std::move(monoid)) {}
    ~Fiba() { tree().free_all(); }
    Fiba(const Fiba& other) : tree_(other.tree_.nodes(), other.ends()) {
        if (other.spines().root()) copy_shape(other.spines());
    }
    Fiba& operator=(const Fiba&) = delete;

    Monoid& monoid() { return ends().monoid(); }
    size_t size() const { return spines().size; }
    uint64_t spent() const { return 0; }
    uint32_t height() const { return spines().height(); }
    const Node* root() const { return size() ? spines().root() : nullptr; }
    const Spines& spines() const { return tree_.spines(); }
    const Time& oldest() const { return left_leaf()->front(); }
    const Time& newest() const { return right_leaf()->back(); }
    void require_order(const Time&) const {}

    Agg query() { return ends().whole(); }
    void query_into(Agg& agg) { ends().whole_into(agg); }
    bool query(const Range<Time>& range, Agg& agg) {
        if (!size()) return false;
        Fold<Monoid> fold(monoid());
        ends().summaries().fold(range, fold);
        if (fold.some()) agg = std::move(fold.get());
        return fold.some();
    }

    // Rounds whose rows belong to the right finger leaf, and that leave entries in the left one.
    template <class Rows, class Emit>
    void run(const Rows& rows, size_t& row, size_t stop, Emit&& emit) {
        if (!size() || right_leaf()->end == tree().nodes().room(right_leaf())) return;
        if (!less(right_leaf()->front(), rows.time(row))) return;
        if (height() > 0) tree().nodes().prefetch_entries(inner(spines().left(1))->children[1]);  // the next left leaf
        if constexpr (runs_in_columns)
            ends().run_in_columns(rows, row, stop, tree().spines().appends, emit);
        else
            ends().run(rows, row, stop, tree().spines().appends, std::forward<Emit>(emit));
    }

    bool insert(Time time, Given entry) {
        if (size() && less(newest(), time)) {
            append(std::move(time), std::move(entry));
            return true;
        }
        return insert_elsewhere(std::move(time), std::move(entry));
    }

    SASH_RARE bool insert_elsewhere(Time time, Given entry) {
        tree().start_if_empty();
        Path path = tree().search(time);
        return insert_found(path, std::move(time), std::move(entry));
    }

    bool evict(const Time& time) {
        if (!size()) return false;
        Path path = tree().search(time);
        if (path.found) tree().evict_at(path);
        return path.found;
    }
    void evict_oldest() { tree().evict_oldest(); }
    size_t evict_until(const Time& edge, bool inclusive) { return tree().evict_until(edge, inclusive); }
    bool contains(const Time& time) { return size() && tree().search(time).found; }

    // Inserts rows [done, size) in time order: `rows.time(i)`, `rows.entry(i)`. Each leaf that is met is searched once,
    // merged once and marked stale once; what lies behind the newest entry is copied leaf by leaf. False: an entry cannot
    // hold what was to be merged into it; then all rows before `done` are in and none after.
    template <class Rows>
    bool insert_run(const Rows& rows, size_t& done) {
        RunOf<Rows> run{rows};
        while (done < rows.size() && size() && !less(newest(), rows.time(done))) {
            Path path = tree().search(rows.time(done));
            size_t stop = tree().end_of_group(path, run, done);
            if (stop == done + 1) {  // nothing to gain from a merge
                if (!insert_found(path, rows.time(done), rows.entry(done))) return false;
                done = stop;
                continue;
            }
            scratch_.monoid = &monoid();
            if (!tree().merge_group(path, run, done, stop, scratch_)) return false;
            done = stop;
        }
        return append_run(rows, done);
    }

    template <class Visit>
    void each_oldest(Visit&& visit) const {
        visit(left_leaf()->front(), left_leaf()->entries[left_leaf()->begin]);
    }

    template <class Visit>
    void scan(const Range<Time>& range, bool reverse, Visit&& visit) const {
        if (!size()) return;
        auto on = [&](const Leaf* leaf) { return scan_leaf(leaf, range, visit); };
        auto back = [&](const Leaf* leaf) { return scan_leaf_back(leaf, range, visit); };
        if (reverse)
            tree().scan_back(spines().root(), height(), range.stop ? &*range.stop : nullptr, back);
        else
            tree().scan_on(spines().root(), height(), range.start ? &*range.start : nullptr, on);
    }

    SASH_COLD void check() {
        uint64_t combines = monoid().combines;
        tree::check(tree(), [&](Inner* node, uint32_t level, uint32_t i) { ends().check_summary(node, level, i); });
        if (spines().root()) ends().check();
        monoid().combines = combines;
    }

    template <class Visit>
    void visit(Visit&& f) const {
        if (spines().root()) visit_below(spines().root(), height(), f);
        ends().visit(f);
    }

    // The valid aggregates of the finger stacks and the spines, for drawings.
    template <class Visit>
    SASH_COLD void each_part(Visit&& f) const {
        ends().each_part(f);
    }

    // The time and entry that are present at this time, or nulls.
    std::pair<const Time*, const Entry*> find(const Time& time) const {
        if (!size()) return {};
        Path path = tree().search(time);
        if (!path.found) return {};
        return {&path.leaf->times()[path.position], &path.leaf->entries[path.position]};
    }

    // For undo. A comparison of times may be what failed, so objects are found by identity; that is slow, but happens
    // only after an error.
    void evict_present(const Time& time) {
        Path path = path_to(time);
        tree().evict_at(path);
    }
    void replace_present(const Time& time, Entry entry) {
        Path path = path_to(time);
        path.leaf->entries[path.position] = std::move(entry);
        tree().mark_changed_at(path, path.position);
    }
    void push_front(Time time, Entry entry) {
        tree().start_if_empty();
        Path path = tree().finger_path(false);
        path.position = path.leaf->begin;
        insert_at(path, std::move(time), std::move(entry));
    }

   private:
    Tree& tree() const { return const_cast<Tree&>(tree_); }
    Ends& ends() const { return tree().aggregates(); }
    Leaf* left_leaf() const { return static_cast<Leaf*>(spines().left(0)); }
    Leaf* right_leaf() const { return static_cast<Leaf*>(spines().right(0)); }
    static Inner* inner(Node* node) { return static_cast<Inner*>(node); }

    void append(Time time, Given entry) {
        tree().append(time, [&](Leaf* leaf, uint32_t i) {
            leaf->times()[i] = std::move(time);
            leaf->entries[i] = std::move(entry);
        });
    }
    // Inserts an entry where a search for its time has led.
    __attribute__((always_inline)) bool insert_found(Path& path, Time time, Given entry) {
        if (!path.found) return insert_at(path, std::move(time), std::move(entry)), true;
        if (!monoid().merge(path.leaf->entries[path.position], entry)) return false;
        tree().mark_merged(path, entry);
        return true;
    }
    void insert_at(Path& path, Time time, Given entry) {
        tree().insert_at(path, time, [&](Leaf* leaf, uint32_t i) -> const Entry& {
            leaf->times()[i] = std::move(time);
            return leaf->entries[i] = std::move(entry);
        });
    }

    // --- batches -----------------------------------------------------------------------------------------

    template <class Rows>
    struct RunOf {
        const Rows& rows;
        size_t size() const { return rows.size(); }
        Time place(size_t i) const { return rows.time(i); }
    };
    // The entries of a leaf and the rows inserted into it, with those of one time merged.
    struct Scratch {
        std::vector<Time> times;
        std::vector<Entry> entries;
        Monoid* monoid = nullptr;

        size_t size() const { return times.size(); }
        void clear() {
            times.clear();
            entries.clear();
        }
        bool put(const Time& time, Entry entry) {
            if (!times.empty() && !less(times.back(), time)) return monoid->merge(entries.back(), entry);
            times.push_back(time);
            entries.push_back(std::move(entry));
            return true;
        }
        void add_entry(const Leaf* leaf, uint32_t i) { put(leaf->times()[i], leaf->entries[i]); }
        template <class Rows>
        bool add_row(const RunOf<Rows>& run, size_t i) {
            return put(run.rows.time(i), run.rows.entry(i));
        }
        void write(size_t from, size_t to, Leaf* leaf) {
            std::move(times.begin() + static_cast<ptrdiff_t>(from), times.begin() + static_cast<ptrdiff_t>(to),
                      leaf->times());
            std::move(entries.begin() + static_cast<ptrdiff_t>(from), entries.begin() + static_cast<ptrdiff_t>(to),
                      leaf->entries);
        }
    };

    template <class Rows>
    bool append_run(const Rows& rows, size_t& done) {
        if (done < rows.size()) tree().start_if_empty();
        for (; rows.has_ties() && done < rows.size(); ++done) {
            if (!size() || less(newest(), rows.time(done)))
                append(rows.time(done), rows.entry(done));
            else if (!monoid().merge(right_leaf()->entries[right_leaf()->end - 1], rows.entry(done)))
                return false;
        }
        while (done < rows.size()) {
            auto [leaf, room] = tree().slots_at_end(rows.time(done));
            uint32_t count = static_cast<uint32_t>(std::min<size_t>(room, rows.size() - done));
            rows.copy(done, count, leaf->times() + leaf->end, leaf->entries + leaf->end);
            tree().appended(leaf, count);
            done += count;
        }
        return true;
    }

    // --- whole trees -------------------------------------------------------------------------------------

    SASH_COLD void copy_shape(const Spines& other) {
        Node* root = copied(other.root(), other.height());
        tree().spines().reset(root, other.height(), [](Node* node, bool first) {
            return inner(node)->children[first ? 0 : inner(node)->count - 1];
        });
        tree().spines().size = other.size;
        tree().spines().appends = other.appends;
    }
    SASH_COLD Node* copied(Node* node, uint32_t level) {
        if (level == 0) return tree().nodes().copied(static_cast<Leaf*>(node));
        Inner* to = tree().nodes().copied(inner(node));
        for (uint32_t i = 0; i < to->count; ++i) to->children[i] = copied(inner(node)->children[i], level - 1);
        return to;
    }

    template <class Visit>
    static bool scan_leaf(const Leaf* leaf, const Range<Time>& range, Visit& visit) {
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
            if (!range.after_start(leaf->times()[i])) continue;
            if (!range.before_stop(leaf->times()[i]) || !visit(leaf->times()[i], leaf->entries[i])) return false;
        }
        return true;
    }
    template <class Visit>
    static bool scan_leaf_back(const Leaf* leaf, const Range<Time>& range, Visit& visit) {
        for (uint32_t i = leaf->end; i-- > leaf->begin;) {
            if (!range.before_stop(leaf->times()[i])) continue;
            if (!range.after_start(leaf->times()[i]) || !visit(leaf->times()[i], leaf->entries[i])) return false;
        }
        return true;
    }

    template <class Visit>
    SASH_COLD void visit_below(Node* node, uint32_t level, Visit& f) const {
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

    // A present time, by comparison where that cannot fail, else by identity.
    Path path_to(const Time& time) const {
        if (!is_object(time)) return tree().search(time);
        Path path;
        path.top = height();
        path.found = identical_below(spines().root(), height(), time, path);
        return path;
    }
    static bool is_object(const Time& time) {
        if constexpr (std::is_same_v<Time, AnyTime>) return bool(time.object);
        return false;
    }
    bool identical_below(Node* node, uint32_t level, const Time& time, Path& path) const {
        if constexpr (std::is_same_v<Time, AnyTime>) {
            if (level == 0) {
                path.leaf = static_cast<Leaf*>(node);
                for (uint32_t i = path.leaf->begin; i < path.leaf->end; ++i)
                    if (path.leaf->times()[path.position = i].object.get() == time.object.get()) return true;
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

    Tree tree_;
    Scratch scratch_;
};

}  // namespace sash
