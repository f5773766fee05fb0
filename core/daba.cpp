#include "daba.hpp"

#include "engine.hpp"

namespace sash {

std::unique_ptr<Engine> make_daba(const Recipe& recipe) { return make_engine<Daba>(recipe); }

}  // namespace sash
