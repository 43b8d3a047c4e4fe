// Whether an H100's products of matrices follow the rule of crates/sim/src/exec/matrix/dot.rs:
//   nvcc -arch=sm_90 -O2 -std=c++17 matrix_rule.cu -o matrix_rule && ./matrix_rule 1000000
// For each instruction and stratum of operands it prints how many of the 128 results of so many
// instructions differ from the rule, with the first ones.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

enum Element { F16, BF16, TF32, E4M3, E5M2, F32 };

struct Format { int exponent, fraction, bits; bool infinite; };

__host__ __device__ constexpr Format format(int element) {
  switch (element) {
    case F16: return {5, 10, 16, true};
    case BF16: return {8, 7, 16, true};
    case TF32: return {8, 10, 32, true};
    case E4M3: return {4, 3, 8, false};
    case E5M2: return {5, 2, 8, true};
    default: return {8, 23, 32, true};
  }
}

// An instruction: operands in so many registers of a lane.
#define INSTRUCTION(NAME, ASM, KK, AA, BB, CC, ...)                                     \
  struct NAME {                                                                        \
    static constexpr int K = KK, A = AA, B = BB, C = CC;                               \
    static const char *name() { return ASM; }                                          \
    __device__ static void run(const uint32_t *a, const uint32_t *b, const uint32_t *c, \
                               uint32_t *d) { __VA_ARGS__ }                            \
  };
#define F(i) "f"(__uint_as_float(c[i]))
#define WIDE_F32(NAME, ASM, K, A, B)                                                               \
  INSTRUCTION(NAME, ASM, K, A, B, F32, float e[4];                                                 \
    asm volatile("mma.sync.aligned." ASM " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};" \
      : "=f"(e[0]), "=f"(e[1]), "=f"(e[2]), "=f"(e[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),  \
        "r"(b[0]), "r"(b[1]), F(0), F(1), F(2), F(3)); memcpy(d, e, 16);)
#define NARROW_F32(NAME, ASM, K, A, B)                                                             \
  INSTRUCTION(NAME, ASM, K, A, B, F32, float e[4];                                                 \
    asm volatile("mma.sync.aligned." ASM " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"           \
      : "=f"(e[0]), "=f"(e[1]), "=f"(e[2]), "=f"(e[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]),           \
        F(0), F(1), F(2), F(3)); memcpy(d, e, 16);)
#define WIDE_F16(NAME, ASM, K, A, B)                                                               \
  INSTRUCTION(NAME, ASM, K, A, B, F16,                                                             \
    asm volatile("mma.sync.aligned." ASM " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};"               \
      : "=r"(d[0]), "=r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),  \
        "r"(c[0]), "r"(c[1]));)
#define NARROW_F16(NAME, ASM, K, A, B)                                                             \
  INSTRUCTION(NAME, ASM, K, A, B, F16,                                                             \
    asm volatile("mma.sync.aligned." ASM " {%0,%1}, {%2,%3}, {%4}, {%5,%6};"                        \
      : "=r"(d[0]), "=r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]));)

WIDE_F32(H16, "m16n8k16.row.col.f32.f16.f16.f32", 16, F16, F16)
NARROW_F32(H8, "m16n8k8.row.col.f32.f16.f16.f32", 8, F16, F16)
WIDE_F16(HH16, "m16n8k16.row.col.f16.f16.f16.f16", 16, F16, F16)
NARROW_F16(HH8, "m16n8k8.row.col.f16.f16.f16.f16", 8, F16, F16)
WIDE_F32(B16, "m16n8k16.row.col.f32.bf16.bf16.f32", 16, BF16, BF16)
NARROW_F32(B8, "m16n8k8.row.col.f32.bf16.bf16.f32", 8, BF16, BF16)
WIDE_F32(T8, "m16n8k8.row.col.f32.tf32.tf32.f32", 8, TF32, TF32)
NARROW_F32(T4, "m16n8k4.row.col.f32.tf32.tf32.f32", 4, TF32, TF32)
#define EIGHT(NAME, A, B, a, b)                                                     \
  WIDE_F32(NAME##32, "m16n8k32.row.col.f32." a "." b ".f32", 32, A, B)              \
  NARROW_F32(NAME##16, "m16n8k16.row.col.f32." a "." b ".f32", 16, A, B)            \
  WIDE_F16(NAME##H32, "m16n8k32.row.col.f16." a "." b ".f16", 32, A, B)             \
  NARROW_F16(NAME##H16, "m16n8k16.row.col.f16." a "." b ".f16", 16, A, B)
EIGHT(Q44, E4M3, E4M3, "e4m3", "e4m3")
EIGHT(Q45, E4M3, E5M2, "e4m3", "e5m2")
EIGHT(Q54, E5M2, E4M3, "e5m2", "e4m3")
EIGHT(Q55, E5M2, E5M2, "e5m2", "e5m2")

// Operands.

enum Stratum { NEAR, CANCELLING, WIDE, SUBNORMAL, SPECIAL, BITS, LOW, STRATA };
static const char *const strata[] = {"near", "cancelling", "wide", "subnormal", "special", "bits", "low"};

__host__ __device__ inline uint64_t random_of(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The bits of a number: a sign, a biased exponent that is clamped to those of finite numbers, and
// a fraction. Those of tf32 are in the upper 19 bits of 32.
__host__ __device__ inline uint32_t encode(int element, int sign, int field, uint32_t fraction) {
  Format of = format(element);
  int last = (1 << of.exponent) - (of.infinite ? 2 : 1);
  field = field < 0 ? 0 : field > last ? last : field;
  fraction &= (1u << of.fraction) - 1;
  if (!of.infinite && field == last && fraction == (1u << of.fraction) - 1) fraction--;
  uint32_t bits = (uint32_t)sign << (of.exponent + of.fraction) | (uint32_t)field << of.fraction | fraction;
  return element == TF32 ? bits << 13 : bits;
}

__host__ __device__ inline uint32_t number(int element, int stratum, uint64_t random) {
  Format of = format(element);
  int sign = random & 1, bias = (1 << (of.exponent - 1)) - 1, pick = (random >> 32) & 0x7fffffff;
  uint32_t fraction = (uint32_t)(random >> 1);
  switch (stratum) {
    case NEAR: case CANCELLING: return encode(element, sign, bias - 3 + pick % 7, fraction);
    case WIDE: return encode(element, sign, 1 + pick % (2 * bias), fraction);
    case SUBNORMAL:
      if (pick % 4 == 0) return encode(element, sign, bias - 2 + pick / 256 % 5, fraction);
      return encode(element, sign, pick / 256 % (of.exponent > 4 ? 6 : 2), fraction);
    case LOW:  // products below the smallest number of single precision
      if (of.exponent < 8) return encode(element, sign, pick % 4, fraction);
      if (pick % 5 == 0) return encode(element, sign, 0, 0);
      if (element == F32) return pick / 256 % 2 ? 0 : encode(F32, sign, 0, fraction >> (pick >> 16) % 23);
      return encode(element, sign, bias - 90 + pick / 256 % 30, fraction);
    case SPECIAL:
      switch (pick % 16) {
        case 0: return encode(element, sign, 0, 0);
        case 1: return encode(element, sign, 0, 1);
        case 2: {  // an infinity or a NaN
          uint32_t all = (1u << of.exponent) - 1;
          uint32_t bits = all << of.fraction | (pick / 16 % 4 && of.infinite ? 0 : (1u << of.fraction) - 1);
          bits |= (uint32_t)sign << (of.exponent + of.fraction);
          return element == TF32 ? bits << 13 : bits;
        }
        case 3: case 4: case 5: return encode(element, sign, 1 << 20, ~0u);
        case 6: return encode(element, sign, bias, 0);
        case 7: return encode(element, sign, 1, 0);
        default: return pick & 0x100000 ? encode(element, sign, pick / 256 % (2 * bias), fraction)
                                        : encode(element, sign, 0, 0);
      }
    default: return of.bits == 32 ? fraction : fraction & ((1u << of.bits) - 1);
  }
}

__device__ inline double value(int element, uint32_t bits) {
  Format of = format(element);
  if (element == TF32) bits >>= 13;
  int field = bits >> of.fraction & ((1 << of.exponent) - 1), bias = (1 << (of.exponent - 1)) - 1;
  double fraction = bits & ((1u << of.fraction) - 1);
  if (field) fraction += 1u << of.fraction; else field = 1;
  double magnitude = ldexp(fraction, field - bias - of.fraction);
  return bits >> (of.exponent + of.fraction) & 1 ? -magnitude : magnitude;
}

template <class I> __device__ uint32_t a_of(int stratum, uint64_t at, int row, int k) {
  return number(I::A, stratum, random_of(at * 4096 + row * 64 + k));
}
template <class I> __device__ uint32_t b_of(int stratum, uint64_t at, int k, int column) {
  return number(I::B, stratum, random_of(random_of(at * 4096 + 2048 + column * 64 + k)));
}
template <class I> __device__ uint32_t c_of(int stratum, uint64_t at, int row, int column) {
  uint64_t random = random_of(random_of(random_of(at * 4096 + 3000 + row * 8 + column)));
  if (stratum != CANCELLING) return number(I::C, stratum, random);
  // Within two units of what cancels all products, or half of them.
  double sum = 0;
  for (int k = 0; k < (random % 3 ? I::K : I::K / 2); k++)
    sum += value(I::A, a_of<I>(stratum, at, row, k)) * value(I::B, b_of<I>(stratum, at, k, column));
  uint32_t bits = __float_as_uint(-(float)sum);
  if (I::C == F16) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(-(float)sum));
    bits = half;
  }
  return bits + (int)(random >> 8 & 3) - 2;
}

// The rule.

// (-1)^sign · significand · 2^(exponent - fraction), or an infinity or a NaN.
struct Number { bool negative, infinite, nan; uint32_t significand; int exponent; };

template <int E> __device__ Number decode(uint32_t bits) {
  constexpr Format of = format(E);
  if (E == TF32) bits >>= 13;
  int field = bits >> of.fraction & ((1 << of.exponent) - 1), bias = (1 << (of.exponent - 1)) - 1;
  uint32_t fraction = bits & ((1u << of.fraction) - 1), all = (1u << of.fraction) - 1;
  bool last = field == (1 << of.exponent) - 1;
  Number it = {(bool)(bits >> (of.exponent + of.fraction) & 1), last && of.infinite && !fraction,
               last && (of.infinite ? fraction != 0 : fraction == all),
               field ? fraction | 1u << of.fraction : fraction, (field ? field : 1) - bias};
  // As a number of half precision, a subnormal of e4m3 is normal.
  if (E == E4M3) while (it.significand && it.significand < 8) it.significand *= 2, it.exponent--;
  return it;
}

// The number magnitude · 2^exponent: towards zero in single precision, to nearest in half.
__device__ uint32_t encode_sum(int element, bool negative, uint64_t magnitude, int exponent) {
  Format of = format(element);
  int bias = (1 << (of.exponent - 1)) - 1;
  if (!magnitude) return 0;
  int top = 63 - __clzll(magnitude) + exponent, unit = max(top, 1 - bias) - of.fraction;
  int shift = unit - exponent;
  uint64_t kept = shift <= 0 ? magnitude << -shift : shift > 62 ? 0 : magnitude >> shift;
  if (element == F16 && shift > 0 && shift <= 62) {
    uint64_t rest = magnitude & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    kept += rest > half || (rest == half && kept & 1);
  }
  // The carry of a fraction goes to the exponent.
  uint32_t bits = (uint32_t)kept + ((uint32_t)max(top + bias - 1, 0) << of.fraction);
  uint32_t infinity = ((1u << of.exponent) - 1) << of.fraction;
  if (bits > infinity || top > bias) bits = infinity;
  return bits ? bits | (uint32_t)negative << (of.exponent + of.fraction) : 0;
}

template <class I> __device__ uint32_t group(const Number *a, const Number *b, int count, uint32_t c_bits) {
  constexpr int kept = 25, products = format(I::A).fraction + format(I::B).fraction;
  Number c = decode<I::C>(c_bits);
  bool nan = c.nan, infinite[2] = {c.infinite && !c.negative, c.infinite && c.negative};
  int largest = format(I::A).exponent == 8 ? -133 : -10000;
  if (c.significand) largest = max(largest, c.exponent);
  for (int i = 0; i < count; i++) {
    nan |= a[i].nan || b[i].nan || (a[i].infinite && !b[i].significand) || (b[i].infinite && !a[i].significand);
    if (a[i].infinite || b[i].infinite) infinite[a[i].negative != b[i].negative] = true;
    if (a[i].significand && b[i].significand) largest = max(largest, a[i].exponent + b[i].exponent);
  }
  if (nan || (infinite[0] && infinite[1])) return I::C == F16 ? 0x7fff : 0x7fffffff;
  if (infinite[0] || infinite[1]) return (I::C == F16 ? 0x7c00 : 0x7f800000) | (infinite[1] ? (I::C == F16 ? 0x8000 : 0x80000000) : 0);
  int64_t sum = 0;
  auto add = [&](bool negative, uint64_t significand, int exponent, int fraction) {
    int shift = kept - fraction - (largest - exponent);
    int64_t aligned = shift >= 0 ? significand << shift : -shift > 63 ? 0 : significand >> -shift;
    sum += negative ? -aligned : aligned;
  };
  if (c.significand) add(c.negative, c.significand, c.exponent, format(I::C).fraction);
  for (int i = 0; i < count; i++)
    if (a[i].significand && b[i].significand)
      add(a[i].negative != b[i].negative, (uint64_t)a[i].significand * b[i].significand, a[i].exponent + b[i].exponent, products);
  return encode_sum(I::C, sum < 0, sum < 0 ? -sum : sum, largest - kept);
}

template <class I> __device__ uint32_t rule(const Number *a, const Number *b, uint32_t c) {
  if (format(I::A).bits != 8) return group<I>(a, b, I::K, c);
  // Two products of half precision without C: of the first two of each four elements, then of the
  // others.
  Number x[I::K / 2], y[I::K / 2];
  uint32_t sum = 0;
  for (int half = 0; half < 2; half++) {
    for (int i = 0; i < I::K / 2; i++) {
      int k = i / 2 * 4 + 2 * half + i % 2;
      x[i] = a[k], y[i] = b[k];
    }
    sum = group<I>(x, y, I::K / 2, sum);
  }
  if (I::C == F32) return __float_as_uint(__fadd_rn(__uint_as_float(c), __uint_as_float(sum)));
  unsigned short total;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(total) : "h"((unsigned short)c), "h"((unsigned short)sum));
  return total;
}

struct Different { uint64_t at; int row, column; uint32_t found, expected; };

template <class I> __global__ void compare(int stratum, unsigned long long *count, Different *first) {
  uint64_t at = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32, outer = lane / 4, inner = lane % 4;
  constexpr int bits = format(I::A).bits, packed = 32 / bits, blocks = I::K / (4 * packed);
  uint32_t a[4], b[2], c[4], d[4];
  for (int r = 0; r < 2 * blocks; r++) {
    a[r] = 0;
    for (int i = 0; i < packed; i++)
      a[r] |= a_of<I>(stratum, at, outer + r % 2 * 8, (r / 2 * 4 + inner) * packed + i) << (packed > 1 ? bits * i : 0);
  }
  for (int r = 0; r < blocks; r++) {
    b[r] = 0;
    for (int i = 0; i < packed; i++)
      b[r] |= b_of<I>(stratum, at, (r * 4 + inner) * packed + i, outer) << (packed > 1 ? bits * i : 0);
  }
  for (int r = 0; r < 4; r++) c[r] = c_of<I>(stratum, at, outer + r / 2 * 8, inner * 2 + r % 2);
  uint32_t halves[2] = {c[0] | c[1] << 16, c[2] | c[3] << 16};
  I::run(a, b, I::C == F16 ? halves : c, d);
  Number x[I::K], y[I::K];
  for (int r = 0; r < 4; r++) {
    int row = outer + r / 2 * 8, column = inner * 2 + r % 2;
    for (int k = 0; k < I::K; k++) {
      x[k] = decode<I::A>(a_of<I>(stratum, at, row, k));
      y[k] = decode<I::B>(b_of<I>(stratum, at, k, column));
    }
    uint32_t found = I::C == F16 ? d[r / 2] >> r % 2 * 16 & 0xffff : d[r], expected = rule<I>(x, y, c[r]);
    if (found != expected && atomicAdd(count, 1ull) < 1) *first = {at, row, column, found, expected};
  }
}

template <class I> void test(unsigned instructions) {
  unsigned long long *count;
  Different *first;
  cudaMallocManaged(&count, sizeof *count);
  cudaMallocManaged(&first, sizeof *first);
  printf("%s:", I::name());
  for (int stratum = 0; stratum < STRATA; stratum++) {
    *count = 0;
    compare<I><<<instructions / 8, 256>>>(stratum, count, first);
    cudaError_t error = cudaDeviceSynchronize();
    if (error) printf(" %s", cudaGetErrorString(error)), exit(1);
    printf(" %s %llu", strata[stratum], *count);
    if (*count) printf(" (%08x, by the rule %08x)", first->found, first->expected);
  }
  printf("\n");
}

int main(int count, char **arguments) {
  unsigned n = count > 1 ? strtoul(arguments[1], nullptr, 0) : 1000000;
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  printf("%s, %u instructions of each stratum: results that differ from the rule\n", properties.name, n);
  test<H16>(n), test<H8>(n), test<HH16>(n), test<HH8>(n), test<B16>(n), test<B8>(n), test<T8>(n), test<T4>(n);
  test<Q4432>(n), test<Q4416>(n), test<Q44H32>(n), test<Q44H16>(n), test<Q4532>(n), test<Q4516>(n);
  test<Q45H32>(n), test<Q45H16>(n), test<Q5432>(n), test<Q5416>(n), test<Q54H32>(n), test<Q54H16>(n);
  test<Q5532>(n), test<Q5516>(n), test<Q55H32>(n), test<Q55H16>(n);
}
