#include "structures/reactive.hpp"

#include "engine/makers.hpp"

namespace sash {

std::unique_ptr<Engine> make_reactive(const Recipe& recipe) {
    std::unique_ptr<Engine> engine = make_measured<Reactive>(recipe);
    return engine ? std::move(engine) : make_erased_reactive(recipe);
}

}  // namespace sash
