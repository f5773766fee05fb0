// `fiba` for records, whose time goes into the plan's kernels (monoids/ops_*.cpp): the tree around them is optimized less.
#include "engine/makers.hpp"
#include "structures/fiba.hpp"

namespace sash {

std::unique_ptr<Engine> make_fiba_of_records(const Recipe& recipe) {
    return make_native<Fiba>(recipe, static_cast<RecordMonoids*>(nullptr));
}

}  // namespace sash
