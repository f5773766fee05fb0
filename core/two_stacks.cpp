#include "two_stacks.hpp"

#include "engine.hpp"

namespace sash {

std::unique_ptr<Engine> make_two_stacks(const Recipe& recipe) { return make_engine<TwoStacks>(recipe); }

}  // namespace sash
