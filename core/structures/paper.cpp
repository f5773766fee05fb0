#include "engine/makers.hpp"
#include "structures/btree.hpp"

namespace sash {

std::unique_ptr<Engine> make_paper(const Recipe& recipe) {
    std::unique_ptr<Engine> engine = make_measured<PaperTree>(recipe);
    return engine ? std::move(engine) : make_erased_paper(recipe);
}

}  // namespace sash
