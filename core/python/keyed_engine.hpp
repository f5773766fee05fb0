// The engine of keyed windows as Python has it, for the files that bind it.
#pragma once

#include "keyed/keyed.hpp"

namespace sash {

struct KeyedEngine {
    Ref monoid;  // which the plan leans on
    Keyed keyed;
};

}  // namespace sash
