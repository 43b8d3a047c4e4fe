// nvrtc: --include-path=crates/region/kernels
// Matrix products of f64: see product.cuh.
#include "product.cuh"

KERNELS(double, double, double)
