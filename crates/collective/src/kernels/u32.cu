// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of u32.
#define T unsigned int
#define VECTOR uint4
#define PER_VECTOR 4
#define ENTRY(reduction) fold_u32_##reduction
static __device__ __forceinline__ T smaller(T a, T b) { return min(a, b); }
static __device__ __forceinline__ T larger(T a, T b) { return max(a, b); }
#include "fold.h"
