#include "btree.hpp"
#include "engine.hpp"

namespace sash {

std::unique_ptr<Engine> make_classic(const Recipe& recipe) { return make_engine<ClassicTree>(recipe); }

}  // namespace sash
