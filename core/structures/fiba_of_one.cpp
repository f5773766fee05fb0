// `fiba` for records of one aggregate that is often alone.
#include "engine/makers.hpp"
#include "monoids/record_of_one.hpp"
#include "structures/fiba.hpp"

namespace sash {

namespace {

template <class... Monoids>
std::unique_ptr<Engine> make_one(const Recipe& recipe, std::tuple<Monoids...>*) {
    std::unique_ptr<Engine> engine;
    (void)((Monoids::serves(*recipe.spec.plan) &&
            (engine = std::make_unique<EngineOf<Fiba, int64_t, Monoids>>(recipe), true)) ||
           ...);
    return engine;
}

}  // namespace

std::unique_ptr<Engine> make_fiba_of_one(const Recipe& recipe) {
    if (!recipe.spec.plan) return nullptr;
    return make_one(recipe, static_cast<RecordsOfOne*>(nullptr));
}

}  // namespace sash
