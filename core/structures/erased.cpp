// Every structure for the times and monoids that it has no template for. No figure measures these, so they are compiled
// with less optimization, which takes half the time.
#include "engine/makers.hpp"
#include "structures/btree.hpp"
#include "structures/daba.hpp"
#include "structures/fiba.hpp"
#include "structures/reactive.hpp"
#include "structures/two_stacks.hpp"

namespace sash {

// Python monoids are common with times of one word: there entries take two words.
std::unique_ptr<Engine> make_erased_fiba(const Recipe& recipe) {
    if (recipe.format.one_word() && recipe.monoid == Objects::name)
        return std::make_unique<EngineOf<Fiba, int64_t, Objects>>(recipe);
    return make_erased<Fiba>(recipe);
}
std::unique_ptr<Engine> make_erased_paper(const Recipe& recipe) { return make_erased<PaperTree>(recipe); }
std::unique_ptr<Engine> make_erased_classic(const Recipe& recipe) { return make_erased<ClassicTree>(recipe); }
std::unique_ptr<Engine> make_erased_two_stacks(const Recipe& recipe) { return make_erased<TwoStacks>(recipe); }
std::unique_ptr<Engine> make_erased_daba(const Recipe& recipe) { return make_erased<Daba>(recipe); }
std::unique_ptr<Engine> make_erased_reactive(const Recipe& recipe) { return make_erased<Reactive>(recipe); }

}  // namespace sash
