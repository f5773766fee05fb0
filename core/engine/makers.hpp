// The makers of engines by recipe, each in its own translation unit.
#pragma once

#include "engine/engine_of.hpp"

namespace sash {

template <template <class, class> class Structure, class... Monoids>
std::unique_ptr<Engine> make_native(const Recipe& recipe, std::tuple<Monoids...>*) {
    std::unique_ptr<Engine> engine;
    (void)((recipe.monoid == Monoids::name &&
            (engine = std::make_unique<EngineOf<Structure, int64_t, Monoids>>(recipe), true)) ||
           ...);
    return engine;
}

// Templates for what is measured, else null.
template <template <class, class> class Structure>
std::unique_ptr<Engine> make_measured(const Recipe& recipe) {
    if (!recipe.format.one_word()) return nullptr;
    return make_native<Structure>(recipe, static_cast<MeasuredMonoids*>(nullptr));
}

// And one for every other monoid and time (structures/erased.cpp).
template <template <class, class> class Structure>
std::unique_ptr<Engine> make_erased(const Recipe& recipe) {
    if (recipe.format.kind == TimeKind::object || recipe.monoid == Objects::name)
        return std::make_unique<EngineOf<Structure, AnyTime, Objects>>(recipe);
    std::unique_ptr<AnyOps> ops = any_ops(recipe.monoid, recipe.spec);
    if (!ops) return nullptr;
    return std::make_unique<EngineOf<Structure, AnyNumber, AnyMonoid>>(recipe, AnyMonoid(std::move(ops)));
}

}  // namespace sash
