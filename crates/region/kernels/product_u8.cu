// nvrtc: --include-path=crates/region/kernels
// Matrix products of u8, which wrap around: see product.cuh.
#include "product.cuh"

KERNELS(unsigned char, unsigned char, unsigned)
