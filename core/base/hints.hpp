// Hints for the compiler.
#pragma once

// Kept out of line, so that the few instructions of the common case stay together.
#define SASH_RARE __attribute__((noinline))
// For proofs, pictures and copies, which no loop waits for: small, and soon compiled.
#define SASH_COLD __attribute__((cold, noinline))

// For functions that prefetch and do nothing else: a call of one that is not inlined has no effect that gcc can see, and
// it is dropped.
#define SASH_FETCH __attribute__((always_inline)) inline

// One copy for each width of vector, chosen when the module is loaded. (The sanitizers' runtime is not ready by then.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(SASH_SANITIZE) && \
    !defined(SASH_PORTABLE)
#define SASH_WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define SASH_WIDE
#endif
