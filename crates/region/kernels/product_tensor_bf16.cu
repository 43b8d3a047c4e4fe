// nvrtc: --gpu-architecture=compute_80 --include-path=crates/region/kernels
// Matrix products of bf16 by tensor cores, added as f32 and rounded once: see product_tensor.cuh.
#include "product_tensor.cuh"

TENSOR_KERNELS(BHalf)
