// Hints for the compiler.
#pragma once

// Kept out of line, so that the few instructions of the common case stay together.
#define SASH_RARE __attribute__((noinline))
// For proofs, pictures and copies, which no loop waits for: small, and soon compiled.
#define SASH_COLD __attribute__((cold, noinline))
