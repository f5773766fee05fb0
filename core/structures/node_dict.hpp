// What a structure holds, as plain Python data for tests and drawings: a tree as nested dicts, a queue as lists.
#pragma once

#include "structures/btree.hpp"
#include "structures/fiba.hpp"
#include "structures/fiba_parts.hpp"
#include "structures/in_order.hpp"
#include "structures/reactive.hpp"
#include "tree/plain.hpp"

namespace sash {

// A state for readers: of a record the result, because its state is just words.
template <class Tree, class Agg>
SASH_COLD Ref seen(Tree& tree, const Agg& agg) {
    if constexpr (std::decay_t<decltype(tree.monoid())>::is_record)
        return tree.monoid().seen(agg);
    else
        return tree.monoid().state(agg);
}

template <class S>
inline constexpr bool is_btree = false;
template <class Time, class Monoid, class Policy>
inline constexpr bool is_btree<BTree<Time, Monoid, Policy>> = true;

// The times that a drawing is about. Null: everything is drawn. Otherwise only the spines and the ways to these times, with
// the children of their nodes; a child that is left out so has the number and the ends of what is below it.
template <class Time>
using Around = std::vector<Time>;

// What is below a node that is not drawn.
template <class Time>
struct Below {
    int64_t entries = 0, nodes = 0;
    const Time *first = nullptr, *last = nullptr;

    // Where entries come in time order no times are compared, which would run Python for each of thousands.
    void add_next(const Time& time) {
        ++entries;
        if (!first) first = &time;
        last = &time;
    }
    void add(const Time& time) {
        ++entries;
        if (!first || less(time, *first)) first = &time;
        if (!last || less(*last, time)) last = &time;
    }
    void describe(Ref& dict, const TimeFormat& format) const {
        set_item(dict, "entries", python_int(entries));
        set_item(dict, "nodes", python_int(nodes));
        set_item(dict, "first", python_time(format, *first));
        set_item(dict, "last", python_time(format, *last));
    }
};

// The children of a node as a list of dicts: child i is drawn with what is below it if `opens(i)` returns times, or else
// folded. `draw(i, times)` draws one.
template <class Time, class Place, class Spine, class Draw>
SASH_COLD Ref children_of(uint32_t count, const Around<Time>* around, Place&& place, Spine&& on_spine, Draw&& draw) {
    Ref children = python_list();
    std::vector<Around<Time>> below(around ? count : 0);
    if (around)
        for (const Time& time : *around) {
            auto [from, to] = place(time);
            for (uint32_t i = from; i <= to; ++i) below[i].push_back(time);
        }
    for (uint32_t i = 0; i < count; ++i)
        append(children, draw(i, around ? &below[i] : nullptr, !around || on_spine(i) || !below[i].empty()));
    return children;
}

template <class S>
SASH_COLD void count_below(const typename S::Node* node, Below<typename S::Time>& below) {
    ++below.nodes;
    for (uint32_t i = 0; i <= node->count(); ++i) {
        if (!node->is_leaf()) count_below<S>(node->children[i], below);
        if (i < node->count()) below.add_next(node->times[i]);
    }
}

template <class S>
SASH_COLD Ref node_of(S& tree, const typename S::Node* node, const TimeFormat& format,
                      const Around<typename S::Time>* around, bool open) {
    using Time = typename S::Time;
    Ref keys = python_list(), values = python_list(), children = python_list();
    for (uint32_t i = 0; i < node->count(); ++i) {
        append(keys, python_time(format, node->times[i]));
        append(values, seen(tree, tree.monoid().of(node->entries[i])));
    }
    if (!node->is_leaf() && open) {
        auto place = [&](const Time& time) {  // of an entry of this node both sides: its neighbors are there
            uint32_t i = 0;
            while (i < node->count() && less(node->times[i], time)) ++i;
            return std::pair<uint32_t, uint32_t>(i, i + (i < node->count() && !less(time, node->times[i])));
        };
        auto on_spine = [&](uint32_t i) { return node->children[i]->left_spine || node->children[i]->right_spine; };
        children = children_of<Time>(node->arity, around, place, on_spine,
                                     [&](uint32_t i, const Around<Time>* times, bool open_child) {
                                         return node_of(tree, node->children[i], format, times, open_child);
                                     });
    }
    const char* spine = node->left_spine ? "left" : node->right_spine ? "right" : nullptr;
    if (node->is_root()) spine = "root";
    Ref dict = node_dict(keys, values, seen(tree, node->agg), spine, children);
    set_item(dict, "coins", python_int(int64_t{tree.coins(node)}));
    set_item(dict, "id", node_id(node));
    if (!node->is_leaf() && !open) {
        Below<Time> below;
        count_below<S>(node, below);
        below.describe(dict, format);
    }
    return dict;
}

template <class Tree>
SASH_COLD void count_below(const tree::Node* node, uint32_t level, Below<typename Tree::Time>& below) {
    ++below.nodes;
    if (level == 0) {
        auto* leaf = static_cast<const typename Tree::Leaf*>(node);
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) below.add_next(leaf->times()[i]);
        return;
    }
    auto* inner = static_cast<const typename Tree::Inner*>(node);
    for (uint32_t i = 0; i < inner->count; ++i) count_below<Tree>(inner->children[i], level - 1, below);
}

// In `fiba` an inner node's keys separate its children, and an aggregate that is stale, or covered by a spine, is None.
template <class Time, class Monoid>
SASH_COLD Ref node_of(Fiba<Time, Monoid>& tree, const tree::Node* node, uint32_t level, const Ref& aggregate,
                      const TimeFormat& format, const Around<Time>* around, bool open) {
    using Tree = Fiba<Time, Monoid>;
    Ref keys = python_list(), values = python_list(), children = python_list();
    auto* inner = static_cast<const typename Tree::Inner*>(node);
    if (level == 0) {
        auto* leaf = static_cast<const typename Tree::Leaf*>(node);
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
            append(keys, python_time(format, leaf->times()[i]));
            append(values, seen(tree, tree.monoid().of(leaf->entries[i])));
        }
    } else {
        for (uint32_t i = 1; i < inner->count; ++i) append(keys, python_time(format, inner->first[i]));
    }
    if (level > 0 && open) {
        auto place = [&](const Time& time) {
            uint32_t i = 1;
            while (i < inner->count && !less(time, inner->first[i])) ++i;
            return std::pair<uint32_t, uint32_t>(i - 1, i - 1);
        };
        auto on_spine = [&](uint32_t i) { return spine_name(tree.spines(), inner->children[i], level - 1) != nullptr; };
        auto draw = [&](uint32_t i, const Around<Time>* times, bool open_child) {
            Ref known = inner->is_valid(i) ? seen(tree, inner->aggs[i]) : none();
            return node_of(tree, inner->children[i], level - 1, known, format, times, open_child);
        };
        children = children_of<Time>(inner->count, around, place, on_spine, draw);
    }
    Ref dict = node_dict(keys, values, aggregate, spine_name(tree.spines(), node, level), children);
    set_item(dict, "id", node_id(node));
    if (level > 0 && !open) {
        Below<Time> below;
        count_below<Tree>(node, level, below);
        below.describe(dict, format);
    }
    return dict;
}

template <class S>
inline constexpr bool is_fiba = false;
template <class Time, class Monoid>
inline constexpr bool is_fiba<Fiba<Time, Monoid>> = true;

// The root of `fiba`, with the valid aggregates of the finger stacks and the spines as its "ends".
template <class Time, class Monoid>
SASH_COLD Ref root_of(Fiba<Time, Monoid>& tree, const TimeFormat& format, const Around<Time>* around) {
    Ref ends = python_list();
    tree.each_part([&](const char* part, uint32_t level, uint32_t position, const auto& agg) {
        Ref dict = Ref::checked(PyDict_New());
        set_item(dict, "part", Ref::checked(PyUnicode_FromString(part)));
        set_item(dict, "level", python_int(int64_t{level}));
        set_item(dict, "position", python_int(int64_t{position}));
        set_item(dict, "aggregate", seen(tree, agg));
        append(ends, dict);
    });
    Ref root = node_of(tree, tree.root(), tree.height(), none(), format, around, true);
    set_item(root, "ends", ends);
    return root;
}

// The elements of a queue with the aggregate that each one stores, those of whole parts, and where the parts begin.
template <class S>
SASH_COLD Ref queue_of(S& queue, const TimeFormat& format) {
    Ref dict = Ref::checked(PyDict_New()), cuts = Ref::checked(PyDict_New());
    Ref keys = python_list(), values = python_list(), aggregates = python_list(), totals = Ref::checked(PyDict_New());
    queue.each_element([&](const auto& time, const auto& entry, uint64_t p) {
        append(keys, python_time(format, time));
        append(values, seen(queue, queue.monoid().of(entry)));
        append(aggregates, queue.has_partial(p) ? seen(queue, queue.partial(p)) : none());
    });
    queue.each_total([&](const char* part, const auto& agg) { set_item(totals, part, seen(queue, agg)); });
    for (auto [name, place] : queue.cuts()) set_item(cuts, name, python_int(static_cast<int64_t>(place)));
    set_item(dict, "keys", keys);
    set_item(dict, "values", values);
    set_item(dict, "aggregates", aggregates);
    set_item(dict, "totals", totals);
    set_item(dict, "cuts", cuts);
    return dict;
}

template <class Tree>
SASH_COLD void count_flat(const Tree& tree, uint64_t node, Below<typename Tree::Time>& below) {
    ++below.nodes;
    if (tree.is_leaf(node)) return below.add(tree.time(node));
    for (uint64_t child : {2 * node, 2 * node + 1})
        if (tree.some(child)) count_flat(tree, child, below);
}

// The flat tree of `reactive`: nodes that hold nothing are left out. Its ids are places in the array.
template <class Time, class Monoid>
SASH_COLD Ref node_of(Reactive<Time, Monoid>& tree, uint64_t node, const TimeFormat& format,
                      const std::vector<uint64_t>* leaves) {
    Ref keys = python_list(), values = python_list(), children = python_list(), aggregate;
    bool open = !leaves;
    if (leaves)
        for (uint64_t leaf : *leaves)
            for (uint64_t above = leaf; above && !open; above /= 2) open = above == node;
    if (tree.is_leaf(node)) {
        aggregate = seen(tree, tree.monoid().of(tree.entry(node)));
        append(keys, python_time(format, tree.time(node)));
        append(values, aggregate);
    } else {
        aggregate = seen(tree, tree.agg(node));
        for (uint64_t child : {2 * node, 2 * node + 1})
            if (open && tree.some(child)) append(children, node_of(tree, child, format, leaves));
    }
    Ref dict = node_dict(keys, values, aggregate, node == tree.kRoot ? "root" : nullptr, children);
    set_item(dict, "id", python_int(static_cast<int64_t>(node)));
    if (!open && !tree.is_leaf(node)) {
        Below<Time> below;
        count_flat(tree, node, below);
        below.describe(dict, format);
    }
    return dict;
}

template <class S>
inline constexpr bool is_reactive = false;
template <class Time, class Monoid>
inline constexpr bool is_reactive<Reactive<Time, Monoid>> = true;

template <class S>
SASH_COLD Ref nodes_of(S& structure, const TimeFormat& format, const Around<typename S::Time>* around) {
    if (structure.size() == 0) return none();
    if constexpr (is_btree<S>) {
        return node_of(structure, structure.root(), format, around, true);
    } else if constexpr (is_fiba<S>) {
        return root_of(structure, format, around);
    } else if constexpr (is_reactive<S>) {
        std::vector<uint64_t> leaves;
        if (around)
            for (const auto& time : *around) leaves.push_back(structure.leaf_of(time));
        return node_of(structure, structure.kRoot, format, around ? &leaves : nullptr);
    } else {
        return queue_of(structure, format);
    }
}

}  // namespace sash
