#include "structures/fiba.hpp"

#include "engine/makers.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba(const Recipe& recipe) {
    std::unique_ptr<Engine> engine;
    if (recipe.format.one_word()) {
        engine = make_native<Fiba>(recipe, static_cast<NumberMonoids*>(nullptr));
        if (!engine) engine = make_fiba_of_one(recipe);
        if (!engine) engine = make_fiba_of_records(recipe);
    }
    return engine ? std::move(engine) : make_erased_fiba(recipe);
}

}  // namespace sash
