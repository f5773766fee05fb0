#include "engine/makers.hpp"
#include "structures/btree.hpp"

namespace sash {

std::unique_ptr<Engine> make_classic(const Recipe& recipe) {
    std::unique_ptr<Engine> engine = make_measured<ClassicTree>(recipe);
    return engine ? std::move(engine) : make_erased_classic(recipe);
}

}  // namespace sash
