// `fiba` for monoids that run in Python, where every combine is a call into the interpreter, and for sums wider than int64,
// which few windows ever need: compiled in less time.
#include "engine.hpp"
#include "fiba.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba_of_objects(const Recipe& recipe) {
    using Wide = std::tuple<SumWide>;
    bool pairs = recipe.format.kind == TimeKind::pair;
    if (recipe.monoid == SumWide::name)
        return pairs ? make_native<Fiba, Pair>(recipe, static_cast<Wide*>(nullptr))
                     : make_native<Fiba, int64_t>(recipe, static_cast<Wide*>(nullptr));
    if (recipe.format.kind == TimeKind::object) return std::make_unique<EngineOf<Fiba, Ref, Objects>>(recipe);
    if (pairs) return std::make_unique<EngineOf<Fiba, Pair, Objects>>(recipe);
    return std::make_unique<EngineOf<Fiba, int64_t, Objects>>(recipe);
}

}  // namespace sash
