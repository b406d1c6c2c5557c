#pragma once
// A function compiled for several instruction sets, the fastest chosen at start; nothing on machines that are
// not x86. For loops that the compiler vectorises and whose result does not depend on the version: integers,
// or floating point in a fixed order.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RELIBRA_CLONES __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define RELIBRA_CLONES
#endif
