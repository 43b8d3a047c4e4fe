// nvrtc: --include-path=crates/region/kernels
// Matrix products of i32, which wrap around: see product.cuh.
#include "product.cuh"

KERNELS(unsigned, unsigned, unsigned)
