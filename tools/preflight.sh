#!/bin/sh
# Reports in one sentence what this machine lacks to build sash, before anything is built.
# Usage: tools/preflight.sh [python]; the compiler is $CXX, or the first of c++, g++, clang++.
set -u

python=${1:-python3}

fail() {
    echo "$1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "$python was not found; install Python 3.11 or newer, or set PYTHON= to one."

# Works in any Python, so that an old one can still report its version.
version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) ||
    fail "$python does not run; install Python 3.11 or newer, or set PYTHON= to one."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is Python $version, which is too old; install Python 3.11 or newer, or set PYTHON= to one."

# Debian ships ensurepip separately in python3-venv, while venv itself stays importable.
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "$python has no working venv module; install it (on Debian and Ubuntu: python3-venv)."

"$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    fail "$python has no C headers; install them (on Debian and Ubuntu: python3-dev)."

compiler=${CXX:-}
if [ -z "$compiler" ]; then
    for name in c++ g++ clang++; do
        if command -v "$name" >/dev/null 2>&1; then
            compiler=$name
            break
        fi
    done
fi
[ -n "$compiler" ] ||
    fail "No C++ compiler was found; install g++ or clang++ (on Debian and Ubuntu: g++), or set CXX= to one."
# CXX may contain arguments after the program ("ccache g++"): it is split on purpose.
# shellcheck disable=SC2086
set -- $compiler
command -v "$1" >/dev/null 2>&1 ||
    fail "CXX is $1, which was not found; set it to a C++17 compiler, or unset it."

"$@" -std=c++17 -fsyntax-only -x c++ - >/dev/null 2>&1 <<'EOF' ||
#include <cstdint>
#include <variant>
std::variant<std::int64_t, __int128> sum = __int128{0};
EOF
    fail "$compiler cannot compile C++17 with 128-bit integers; install g++ 9 or clang++ 9 or newer, or set CXX= to one."
