#include "daba.hpp"
#include "engine/makers.hpp"
#include "reactive.hpp"
#include "two_stacks.hpp"

namespace sash {

std::unique_ptr<Engine> make_erased_two_stacks(const Recipe& recipe) { return make_erased<TwoStacks>(recipe); }
std::unique_ptr<Engine> make_erased_daba(const Recipe& recipe) { return make_erased<Daba>(recipe); }
std::unique_ptr<Engine> make_erased_reactive(const Recipe& recipe) { return make_erased<Reactive>(recipe); }

}  // namespace sash
