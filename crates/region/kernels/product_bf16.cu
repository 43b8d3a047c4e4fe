// nvrtc: --include-path=crates/region/kernels
// Matrix products of bf16, added as f32 and rounded once: see product.cuh.
#include "product.cuh"

KERNELS(BHalf, float, float)
