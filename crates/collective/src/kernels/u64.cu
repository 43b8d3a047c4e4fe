// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of u64.
#define T unsigned long long
#define VECTOR ulonglong2
#define PER_VECTOR 2
#define ENTRY(reduction) fold_u64_##reduction
static __device__ __forceinline__ T smaller(T a, T b) { return min(a, b); }
static __device__ __forceinline__ T larger(T a, T b) { return max(a, b); }
#include "fold.h"
