// nvrtc: --include-path=crates/runtime/src/collective/kernels --fmad=false
// Reductions of arrays of bf16.
#include "half.h"
#define ENTRY(reduction) fold_bf16_##reduction
static __device__ __forceinline__ float widened(T a) {
  return __int_as_float((int)((unsigned)a.bits << 16));
}
// The conversion instruction needs a newer architecture than the oldest that Millstream supports.
static __device__ __forceinline__ T narrowed(float a) {
  unsigned bits = (unsigned)__float_as_int(a);
  T narrow;
  if ((bits & 0x7fffffff) > 0x7f800000) narrow.bits = (unsigned short)(bits >> 16 | 0x40);
  else narrow.bits = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  return narrow;
}
#include "fold.h"
