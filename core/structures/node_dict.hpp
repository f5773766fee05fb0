// A tree as nested Python dicts, for tests and drawings.
#pragma once

#include "structures/btree.hpp"
#include "structures/fiba.hpp"
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

template <class S>
SASH_COLD Ref node_of(S& tree, const typename S::Node* node, const TimeFormat& format) {
    Ref keys = python_list(), values = python_list(), children = python_list();
    for (uint32_t i = 0; i < node->count(); ++i) {
        append(keys, python_time(format, node->times[i]));
        append(values, seen(tree, tree.monoid().of(node->entries[i])));
    }
    if (!node->is_leaf())
        for (uint32_t i = 0; i < node->arity; ++i) append(children, node_of(tree, node->children[i], format));
    const char* spine = node->left_spine ? "left" : node->right_spine ? "right" : nullptr;
    if (node->is_root()) spine = "root";
    Ref dict = node_dict(keys, values, seen(tree, node->agg), spine, children);
    set_item(dict, "coins", python_int(int64_t{tree.coins(node)}));
    return dict;
}

// In `fiba` an inner node's keys separate its children, and an aggregate that is stale, or covered by a spine, is None.
template <class Time, class Monoid>
SASH_COLD Ref node_of(Fiba<Time, Monoid>& tree, const tree::Node* node, uint32_t level, const Ref& aggregate,
                      const TimeFormat& format) {
    using Tree = Fiba<Time, Monoid>;
    Ref keys = python_list(), values = python_list(), children = python_list();
    if (level == 0) {
        auto* leaf = static_cast<const typename Tree::Leaf*>(node);
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
            append(keys, python_time(format, leaf->times()[i]));
            append(values, seen(tree, tree.monoid().of(leaf->entries[i])));
        }
    } else {
        auto* inner = static_cast<const typename Tree::Inner*>(node);
        for (uint32_t i = 0; i < inner->count; ++i) {
            if (i) append(keys, python_time(format, inner->first[i]));
            Ref known = inner->is_valid(i) ? seen(tree, inner->aggs[i]) : none();
            append(children, node_of(tree, inner->children[i], level - 1, known, format));
        }
    }
    return node_dict(keys, values, aggregate, spine_name(tree.spines(), node, level), children);
}

template <class S>
inline constexpr bool is_fiba = false;
template <class Time, class Monoid>
inline constexpr bool is_fiba<Fiba<Time, Monoid>> = true;

template <class S>
SASH_COLD Ref nodes_of(S& structure, const TimeFormat& format) {
    if constexpr (is_btree<S>)
        return structure.root() ? node_of(structure, structure.root(), format) : none();
    else if constexpr (is_fiba<S>)
        return structure.root() ? node_of(structure, structure.root(), structure.height(), none(), format) : none();
    else
        fail(ErrorKind::unsupported,
             std::string(S::name) + " does not support nodes(); use structure=\"fiba\", \"paper\" or \"classic\".");
}

}  // namespace sash
