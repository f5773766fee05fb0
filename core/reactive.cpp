#include "reactive.hpp"

#include "engine.hpp"

namespace sash {

std::unique_ptr<Engine> make_reactive(const Recipe& recipe) { return make_engine<Reactive>(recipe); }

}  // namespace sash
