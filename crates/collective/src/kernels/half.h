// Arithmetic of an element type of 16 bits: each operation is that of floats, rounded to the
// nearest value of the type. That is the type's own rounded operation, because a float has more
// than twice its bits. The including file defines `widened`,
// `narrowed`, and `exact` for floats that are values of the type or the NaN of `fminf`.

struct T { unsigned short bits; };

static __device__ __forceinline__ float widened(T a);
static __device__ __forceinline__ T narrowed(float a);
static __device__ __forceinline__ T exact(float a);

static __device__ __forceinline__ T operator+(T a, T b) { return narrowed(widened(a) + widened(b)); }
static __device__ __forceinline__ T operator*(T a, T b) { return narrowed(widened(a) * widened(b)); }
static __device__ __forceinline__ T operator/(T a, T b) { return narrowed(widened(a) / widened(b)); }
static __device__ __forceinline__ T smaller(T a, T b) {
  return exact(fminf(widened(a), widened(b)));
}
static __device__ __forceinline__ T larger(T a, T b) {
  return exact(fmaxf(widened(a), widened(b)));
}

#define VECTOR uint4
#define IS_FLOAT
#define PER_VECTOR 8
#define FROM_COUNT(count) narrowed((float)(count))
