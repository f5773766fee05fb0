// `fiba` for monoids that run in Python: every combine is a call into the interpreter, so this is compiled in less time.
#include "engine.hpp"
#include "fiba.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba_of_objects(const Recipe& recipe) {
    if (recipe.format.kind == TimeKind::object) return std::make_unique<EngineOf<Fiba, Ref, Objects>>(recipe);
    if (recipe.format.kind == TimeKind::pair) return std::make_unique<EngineOf<Fiba, Pair, Objects>>(recipe);
    return std::make_unique<EngineOf<Fiba, int64_t, Objects>>(recipe);
}

}  // namespace sash
