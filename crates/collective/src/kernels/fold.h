// Reductions of the arrays of several ranks in the order of the ranks. The including file defines
// T, the element type; VECTOR, a vector type of 16 bytes; PER_VECTOR, its number of elements;
// ENTRY(reduction), the name of an entry; the functions `smaller` and `larger`; and, unless a cast
// serves, FROM_COUNT(count), an integer as an element.
//
// Every entry sets each of the `n` elements of acc to x0 + x1 + ... (or another reduction) of the
// first `count` arrays, at least two, evaluated from left to right. A null pointer stands for acc
// itself. The entry `avg` divides the sum by `divisor`.

#ifndef FROM_COUNT
#define FROM_COUNT(count) (T)(count)
#endif

typedef unsigned long long u64;

union Pack { VECTOR vector; T elements[PER_VECTOR]; };

struct Sum {
  static __device__ T apply(T a, T b) { return a + b; }
  static __device__ T finish(T a, T) { return a; }
};
struct Avg : Sum { static __device__ T finish(T a, T divisor) { return a / divisor; } };
struct Prod : Sum { static __device__ T apply(T a, T b) { return a * b; } };
struct Min : Sum { static __device__ T apply(T a, T b) { return smaller(a, b); } };
struct Max : Sum { static __device__ T apply(T a, T b) { return larger(a, b); } };

// The number of vectors of an array that a thread loads before it uses one, because loads from
// another device take long.
#define FLIGHT 2

// Loops that the compiler unrolls.
#define EACH_IN_FLIGHT for (int f = 0; f < FLIGHT; ++f)
#define EACH_ELEMENT for (int e = 0; e < PER_VECTOR; ++e)

// The array `k`, as an offset from `acc`, so that the compiler knows that it is in global memory.
#define ARRAY(k) \
  (const T*)((const char*)acc + (arrays[k] ? (long long)arrays[k] - (long long)acc : 0))

// `arrays` has `count` arrays; null stands for `acc`. `vectors` is 0 if one is not aligned.
template <class R>
static __device__ __forceinline__ void run(T* acc, const T* const* arrays, int count, T divisor,
                                           u64 vectors, u64 n) {
  u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
  for (u64 at = thread; at < vectors; at += FLIGHT * threads) {
    // Beyond the end the first vector is handled again, with the same result.
    u64 places[FLIGHT];
#pragma unroll
    EACH_IN_FLIGHT {
      u64 place = at + f * threads;
      places[f] = place < vectors ? place : at;
    }
    Pack result[FLIGHT], next[FLIGHT];
    const VECTOR* first = (const VECTOR*)ARRAY(0);
#pragma unroll
    EACH_IN_FLIGHT result[f].vector = first[places[f]];
    int k = 1;
#pragma unroll 1
    do {
      const VECTOR* array = (const VECTOR*)ARRAY(k);
#pragma unroll
      EACH_IN_FLIGHT next[f].vector = array[places[f]];
#pragma unroll
      EACH_IN_FLIGHT {
#pragma unroll
        EACH_ELEMENT
          result[f].elements[e] = R::apply(result[f].elements[e], next[f].elements[e]);
      }
    } while (++k < count);
#pragma unroll
    EACH_IN_FLIGHT {
#pragma unroll
      EACH_ELEMENT result[f].elements[e] = R::finish(result[f].elements[e], divisor);
      ((VECTOR*)acc)[places[f]] = result[f].vector;
    }
  }
#pragma unroll 1
  for (u64 i = vectors * PER_VECTOR + thread; i < n; i += threads) {
    T result = (ARRAY(0))[i];
    int k = 1;
#pragma unroll 1
    do result = R::apply(result, (ARRAY(k))[i]);
    while (++k < count);
    acc[i] = R::finish(result, divisor);
  }
}

#define DEFINE(name, reduction)                                                                    \
  extern "C" __global__ void name(T* acc, const T* x0, const T* x1, const T* x2, const T* x3,      \
                                  const T* x4, const T* x5, const T* x6, const T* x7, u64 count,   \
                                  u64 divisor, u64 n) {                                            \
    __shared__ const T* arrays[8];                                                                 \
    if (threadIdx.x == 0) {                                                                        \
      arrays[0] = x0, arrays[1] = x1, arrays[2] = x2, arrays[3] = x3;                              \
      arrays[4] = x4, arrays[5] = x5, arrays[6] = x6, arrays[7] = x7;                              \
    }                                                                                              \
    __syncthreads();                                                                               \
    u64 addresses = (u64)acc | (u64)x0 | (u64)x1 | (u64)x2 | (u64)x3 | (u64)x4 | (u64)x5           \
                    | (u64)x6 | (u64)x7;                                                           \
    u64 vectors = addresses % 16 == 0 ? n / PER_VECTOR : 0;                                        \
    run<reduction>(acc, arrays, (int)count, FROM_COUNT(divisor), vectors, n);                      \
  }

DEFINE(ENTRY(sum), Sum)
DEFINE(ENTRY(prod), Prod)
DEFINE(ENTRY(min), Min)
DEFINE(ENTRY(max), Max)
#ifdef IS_FLOAT
DEFINE(ENTRY(avg), Avg)
#endif
