#include "btree.hpp"
#include "engine.hpp"

namespace sash {

std::unique_ptr<Engine> make_paper(const Recipe& recipe) { return make_engine<PaperTree>(recipe); }

}  // namespace sash
