// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of f32.
#define T float
#define VECTOR float4
#define IS_FLOAT
#define PER_VECTOR 4
#define ENTRY(reduction) fold_f32_##reduction
static __device__ __forceinline__ T smaller(T a, T b) { return fminf(a, b); }
static __device__ __forceinline__ T larger(T a, T b) { return fmaxf(a, b); }
#include "fold.h"
