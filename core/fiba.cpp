#include "fiba.hpp"

#include "engine.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba(const Recipe& recipe) { return make_engine<Fiba>(recipe); }

}  // namespace sash
