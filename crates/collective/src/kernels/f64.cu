// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of f64.
#define T double
#define VECTOR double2
#define IS_FLOAT
#define PER_VECTOR 2
#define ENTRY(reduction) fold_f64_##reduction
static __device__ __forceinline__ T smaller(T a, T b) { return fmin(a, b); }
static __device__ __forceinline__ T larger(T a, T b) { return fmax(a, b); }
#include "fold.h"
