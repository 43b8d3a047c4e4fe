// Reductions of the arrays of several ranks in the order of the ranks. The including file defines
// T, the element type; VECTOR, a vector type of 16 bytes; PER_VECTOR, its number of elements;
// ENTRY(reduction), the name of an entry; the functions `smaller` and `larger`; and, unless a cast
// serves, FROM_COUNT(count), an integer as an element.
//
// Every entry sets each of the `n` elements of acc to x0 + x1 + ... (or another reduction) of the
// first `count` arrays, evaluated from left to right. A null pointer stands for acc itself. The
// entry `avg` divides the sum by `divisor`.

#ifndef FROM_COUNT
#define FROM_COUNT(count) (T)(count)
#endif

typedef unsigned long long u64;

union Pack { VECTOR vector; T elements[PER_VECTOR]; };

struct Fold {
  T* acc;
  const T* arrays[8];
  int count;
  T divisor;
};

struct Sum {
  static __device__ T apply(T a, T b) { return a + b; }
  static __device__ T finish(T a, T) { return a; }
};
struct Avg : Sum { static __device__ T finish(T a, T divisor) { return a / divisor; } };
struct Prod : Sum { static __device__ T apply(T a, T b) { return a * b; } };
struct Min : Sum { static __device__ T apply(T a, T b) { return smaller(a, b); } };
struct Max : Sum { static __device__ T apply(T a, T b) { return larger(a, b); } };

// Handles vectors from `at` on, FLIGHT at a time, and returns the first that is left: a thread loads
// FLIGHT vectors of each array before it uses one, because loads from another device take long.
template <class R, int MOST, int FLIGHT>
static __device__ __forceinline__ u64 flights(const Fold& fold, u64 at, u64 threads, u64 vectors) {
#pragma unroll 1
  for (; at + (FLIGHT - 1) * threads < vectors; at += FLIGHT * threads) {
    Pack packs[FLIGHT][MOST];
#pragma unroll
    for (int f = 0; f < FLIGHT; ++f) {
#pragma unroll
      for (int k = 0; k < MOST; ++k)
        if (k < fold.count) packs[f][k].vector = ((const VECTOR*)fold.arrays[k])[at + f * threads];
    }
#pragma unroll
    for (int f = 0; f < FLIGHT; ++f) {
#pragma unroll
      for (int k = 1; k < MOST; ++k) {
        if (k < fold.count) {
#pragma unroll
          for (int e = 0; e < PER_VECTOR; ++e)
            packs[f][0].elements[e] = R::apply(packs[f][0].elements[e], packs[f][k].elements[e]);
        }
      }
#pragma unroll
      for (int e = 0; e < PER_VECTOR; ++e)
        packs[f][0].elements[e] = R::finish(packs[f][0].elements[e], fold.divisor);
      ((VECTOR*)fold.acc)[at + f * threads] = packs[f][0].vector;
    }
  }
  return at;
}

template <class R, int MOST, int FLIGHT>
static __device__ __forceinline__ void run(const Fold& fold, u64 n) {
  u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
  u64 addresses = (u64)fold.acc;
#pragma unroll
  for (int k = 0; k < MOST; ++k) if (k < fold.count) addresses |= (u64)fold.arrays[k];
  u64 vectors = addresses % 16 == 0 ? n / PER_VECTOR : 0;
  u64 at = flights<R, MOST, FLIGHT>(fold, thread, threads, vectors);
  if (FLIGHT > 1) flights<R, MOST, 1>(fold, at, threads, vectors);
#pragma unroll 1
  for (u64 i = vectors * PER_VECTOR + thread; i < n; i += threads) {
    T result = fold.arrays[0][i];
#pragma unroll
    for (int k = 1; k < MOST; ++k)
      if (k < fold.count) result = R::apply(result, fold.arrays[k][i]);
    fold.acc[i] = R::finish(result, fold.divisor);
  }
}

#define OWN(array) (array ? array : acc)

#define DEFINE(name, reduction)                                                                    \
  extern "C" __global__ void name(T* acc, const T* x0, const T* x1, const T* x2, const T* x3,      \
                                  const T* x4, const T* x5, const T* x6, const T* x7, u64 count,   \
                                  u64 divisor, u64 n) {                                            \
    Fold fold = {acc,                                                                              \
                 {OWN(x0), OWN(x1), OWN(x2), OWN(x3), OWN(x4), OWN(x5), OWN(x6), OWN(x7)},         \
                 (int)count, FROM_COUNT(divisor)};                                                     \
    if (count == 2) run<reduction, 2, 4>(fold, n);                                                 \
    else run<reduction, 8, 1>(fold, n);                                                            \
  }

DEFINE(ENTRY(sum), Sum)
DEFINE(ENTRY(prod), Prod)
DEFINE(ENTRY(min), Min)
DEFINE(ENTRY(max), Max)
#ifdef IS_FLOAT
DEFINE(ENTRY(avg), Avg)
#endif
