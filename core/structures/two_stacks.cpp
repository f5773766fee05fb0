#include "structures/two_stacks.hpp"

#include "engine/makers.hpp"

namespace sash {

std::unique_ptr<Engine> make_two_stacks(const Recipe& recipe) {
    std::unique_ptr<Engine> engine = make_measured<TwoStacks>(recipe);
    return engine ? std::move(engine) : make_erased_two_stacks(recipe);
}

}  // namespace sash
