// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of i32.
#define T int
#define VECTOR int4
#define PER_VECTOR 4
#define ENTRY(reduction) fold_i32_##reduction
static __device__ __forceinline__ T smaller(T a, T b) { return min(a, b); }
static __device__ __forceinline__ T larger(T a, T b) { return max(a, b); }
#include "fold.h"
