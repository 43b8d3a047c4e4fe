// nvrtc: --include-path=crates/region/kernels --std=c++17
// Sorts of words of 16 bits: see sort.cuh.
#include "sort.cuh"

KERNELS(u16, 21)
