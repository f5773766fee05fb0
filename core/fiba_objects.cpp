// `fiba` for monoids that run in Python: every combine waits for the interpreter, so this is optimized less.
#include "engine.hpp"
#include "fiba.hpp"
#include "fiba_bulk.hpp"
#include "fiba_check.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba_of_objects(const Recipe& recipe) {
    if (recipe.format.kind == TimeKind::object) return std::make_unique<EngineOf<Fiba, Ref, Objects>>(recipe);
    if (recipe.format.kind == TimeKind::pair) return std::make_unique<EngineOf<Fiba, Pair, Objects>>(recipe);
    return std::make_unique<EngineOf<Fiba, int64_t, Objects>>(recipe);
}

}  // namespace sash
