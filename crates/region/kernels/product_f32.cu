// nvrtc: --include-path=crates/region/kernels
// Matrix products of f32: see product.cuh.
#include "product.cuh"

KERNELS(float, float, float)
