// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of f16.
#include "half.h"
#define ENTRY(reduction) fold_f16_##reduction
static __device__ __forceinline__ float widened(T a) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(a.bits));
  return wide;
}
static __device__ __forceinline__ T narrowed(float a) {
  T narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(a));
  return narrow;
}
static __device__ __forceinline__ T exact(float a) { return narrowed(a); }
#include "fold.h"
