// Half of fiba.cpp, so that two cores share the work.
#include "engine.hpp"
#include "fiba.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba_of_pairs(const Recipe& recipe) {
    return make_native<Fiba, Pair>(recipe, static_cast<QuickMonoids*>(nullptr));
}

}  // namespace sash
