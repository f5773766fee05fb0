#include "engine/makers.hpp"
#include "fiba.hpp"

namespace sash {

// Python monoids are common at times of one word: there they keep entries of two words.
std::unique_ptr<Engine> make_erased_fiba(const Recipe& recipe) {
    if (recipe.format.one_word() && recipe.monoid == Objects::name)
        return std::make_unique<EngineOf<Fiba, int64_t, Objects>>(recipe);
    return make_erased<Fiba>(recipe);
}

}  // namespace sash
