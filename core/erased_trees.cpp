#include "btree.hpp"
#include "engine/makers.hpp"

namespace sash {

std::unique_ptr<Engine> make_erased_paper(const Recipe& recipe) { return make_erased<PaperTree>(recipe); }
std::unique_ptr<Engine> make_erased_classic(const Recipe& recipe) { return make_erased<ClassicTree>(recipe); }

}  // namespace sash
