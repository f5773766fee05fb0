#include "structures/daba.hpp"

#include "engine/makers.hpp"

namespace sash {

std::unique_ptr<Engine> make_daba(const Recipe& recipe) {
    std::unique_ptr<Engine> engine = make_measured<Daba>(recipe);
    return engine ? std::move(engine) : make_erased_daba(recipe);
}

}  // namespace sash
