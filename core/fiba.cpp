#include "fiba.hpp"

#include "engine.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba(const Recipe& recipe) {
    bool slow = recipe.format.kind == TimeKind::object || recipe.monoid == Objects::name;
    if (slow || recipe.monoid == SumWide::name) return make_fiba_of_objects(recipe);
    if (recipe.format.kind == TimeKind::pair) return make_fiba_of_pairs(recipe);
    return make_native<Fiba, int64_t>(recipe, static_cast<QuickMonoids*>(nullptr));
}

}  // namespace sash
