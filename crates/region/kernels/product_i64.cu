// nvrtc: --include-path=crates/region/kernels
// Matrix products of i64, which wrap around: see product.cuh.
#include "product.cuh"

KERNELS(u64, u64, u64)
