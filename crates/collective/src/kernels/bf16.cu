// nvrtc: --include-path=crates/collective/src/kernels --fmad=false
// Reductions of arrays of bf16.
#include "half.h"
#define ENTRY(reduction) fold_bf16_##reduction
static __device__ __forceinline__ float widened(T a) {
  return __int_as_float((int)((unsigned)a.bits << 16));
}
// The conversion instruction needs a newer architecture than the oldest that Millstream supports.
static __device__ __forceinline__ T narrowed(float a) {
  unsigned bits = (unsigned)__float_as_int(a);
  unsigned rounded = bits + 0x7fff + (bits >> 16 & 1);
  T narrow = {(unsigned short)((a != a ? bits | 0x400000 : rounded) >> 16)};
  return narrow;
}
static __device__ __forceinline__ T exact(float a) {
  T narrow = {(unsigned short)((unsigned)__float_as_int(a) >> 16)};
  return narrow;
}
#include "fold.h"
