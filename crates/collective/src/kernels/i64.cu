// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of i64.
#define T long long
#define VECTOR longlong2
#define PER_VECTOR 2
#define ENTRY(reduction) fold_i64_##reduction
static __device__ __forceinline__ T smaller(T a, T b) { return min(a, b); }
static __device__ __forceinline__ T larger(T a, T b) { return max(a, b); }
#include "fold.h"
