// nvrtc: --relocatable-device-code=true --fmad=false
// The functions that generated kernels call, in single and double precision: crates/region/src/maths puts those that a kernel needs in front of
// it. What each is accurate to is in docs/maths.md. Relocatable, so that functions without a caller stay.
//
// Nothing here is compiled with fast maths: divisions and roots are rounded correctly, and subnormals are numbers.

#define ONE(name, single, double_) \
    extern "C" __device__ float ms_##name##_f32(float x) { return single(x); } \
    extern "C" __device__ double ms_##name##_f64(double x) { return double_(x); }

#define TWO(name, single, double_) \
    extern "C" __device__ float ms_##name##_f32(float x, float y) { return single(x, y); } \
    extern "C" __device__ double ms_##name##_f64(double x, double y) { return double_(x, y); }

ONE(exp_m1, expm1f, expm1)
ONE(ln, logf, log)
ONE(ln_1p, log1pf, log1p)
ONE(log2, log2f, log2)
ONE(log10, log10f, log10)
ONE(cbrt, cbrtf, cbrt)
ONE(sin, sinf, sin)
ONE(cos, cosf, cos)
ONE(tan, tanf, tan)
ONE(asin, asinf, asin)
ONE(acos, acosf, acos)
ONE(atan, atanf, atan)
ONE(sinh, sinhf, sinh)
ONE(cosh, coshf, cosh)
ONE(tanh, tanhf, tanh)
ONE(asinh, asinhf, asinh)
ONE(acosh, acoshf, acosh)
ONE(atanh, atanhf, atanh)
ONE(erf, erff, erf)
ONE(erfc, erfcf, erfc)
// Halves go away from zero.
ONE(round, roundf, round)

TWO(atan2, atan2f, atan2)
TWO(hypot, hypotf, hypot)
// The sign is that of x; exact.
TWO(rem, fmodf, fmod)

// (1 + slope * rest) * 2^whole, for sums close to 1. In two steps, since 2^128 and 2^-149 are no numbers with a sign and an exponent alone; only the
// second can round.
static __device__ __forceinline__ float scaled(float slope, float rest, float whole)
{
    int exponent = (int)whole, half = exponent >> 1;
    float scale = __int_as_float((half + 127) << 23), rest_of_scale = __int_as_float((exponent - half + 127) << 23);
    return fmaf(slope, rest, 1.0f) * scale * rest_of_scale;
}

static __device__ __forceinline__ float clamped(float x, float low, float high)
{
    return x > high ? high : x < low ? low : x;
}

// Powers of e and of 2: by a polynomial of what is left of the exponent beside a whole power of 2. CUDA's own are made of the instruction
// `ex2.approx`, whose bits are up to the device; the library puts ours in its place in other functions, too. Beyond the bounds all powers are
// infinite, or zero.
extern "C" __device__ float ms_exp_f32(float x)
{
    float bounded = clamped(x, -105.0f, 89.0f);
    float whole = rintf(bounded * 1.44269504f);
    float rest = fmaf(whole, 1.90465430e-9f, fmaf(whole, -0.693147182f, bounded));
    float slope = 1.98993901837e-4f;
    slope = fmaf(slope, rest, 1.39412131e-3f);
    slope = fmaf(slope, rest, 8.33329834402e-3f);
    slope = fmaf(slope, rest, 4.16663516384e-2f);
    slope = fmaf(slope, rest, 1.66666667193e-1f);
    slope = fmaf(slope, rest, 5.00000004740e-1f);
    slope = fmaf(slope, rest, 1.0f);
    return scaled(slope, rest, whole);
}

// 2^(rest + whole), for a rest between -1/2 and 1/2.
static __device__ __forceinline__ float power_of_two(float rest, float whole)
{
    float slope = 1.52973237607e-5f;
    slope = fmaf(slope, rest, 1.54614446986e-4f);
    slope = fmaf(slope, rest, 1.33335023862e-3f);
    slope = fmaf(slope, rest, 9.61805667852e-3f);
    slope = fmaf(slope, rest, 5.55041088391e-2f);
    slope = fmaf(slope, rest, 2.40226509223e-1f);
    slope = fmaf(slope, rest, 6.93147180560e-1f);
    return scaled(slope, rest, whole);
}

extern "C" __device__ float ms_exp2_f32(float x)
{
    float bounded = clamped(x, -152.0f, 129.0f);
    float whole = rintf(bounded);
    return power_of_two(bounded - whole, whole);
}

// CUDA's own was found 5 units off, this less than one: the logarithm is a sum of two numbers all the way.
//
// log2(x) = e + 2/ln(2) * atanh(f) with x = 2^e * m, m around 1 and f = (m-1)/(m+1); the hyperbolic arc tangent is f + f^3/3 + f^5/5...
static __device__ __forceinline__ void logarithm_of_two(float x, float *high, float *low)
{
    bool is_subnormal = x < 1.17549435e-38f;
    int bits = __float_as_int(is_subnormal ? x * 16777216.0f : x);
    // The root of a half is where m begins.
    int exponent = (bits - 0x3f3504f3) >> 23;
    float m = __int_as_float(bits - (exponent << 23));
    float e = (float)(is_subnormal ? exponent - 24 : exponent);

    float difference = m - 1.0f, sum = m + 1.0f, inverse = 1.0f / sum;
    float sum_low = m < 1.0f ? m - (sum - 1.0f) : 1.0f - (sum - m);
    float f = difference * inverse;
    float f_low = fmaf(-f, sum_low, fmaf(-f, sum, difference)) * inverse;

    float square = f * f, square_low = fmaf(f + f, f_low, fmaf(f, f, -square));
    float rest = fmaf(square, 0.0769230769f, 0.0909090909f);
    rest = fmaf(rest, square, 0.111111111f);
    rest = fmaf(rest, square, 0.142857143f);
    rest = fmaf(rest, square, 0.2f) * square;
    // A third, and what it is short of one, with the rest of the series.
    float third = 0.333333343f + rest;
    float third_low = 0.333333343f - third + rest - 9.93410776e-9f;
    float series = square * third;
    float series_low = fmaf(square, third_low, fmaf(square_low, third, fmaf(square, third, -series)));
    float product = f * series;
    float product_low = fmaf(f, series_low, fmaf(f_low, series, fmaf(f, series, -product)));
    float arc = f + product;
    float arc_low = f - arc + product + (f_low + product_low);

    // Times 2/ln(2).
    float turned = arc * 2.88539004f;
    float turned_low = fmaf(arc_low, 2.88539004f, fmaf(arc, 3.85192598e-8f, fmaf(arc, 2.88539004f, -turned)));
    *high = e + turned;
    *low = e - *high + turned + turned_low;
}

static __device__ __forceinline__ float power_of_magnitude(float x, float y)
{
    if (x == 1.0f) {
        return 1.0f;
    }
    float logarithm, logarithm_low;
    logarithm_of_two(x, &logarithm, &logarithm_low);
    float exponent = y * logarithm;
    // Beyond this all powers are infinite, or zero, and there is no sense in parts of the exponent.
    bool is_beyond = fabsf(exponent) > 200.0f;
    float bounded = clamped(exponent, -200.0f, 200.0f);
    float low = fmaf(y, logarithm_low, fmaf(y, logarithm, -exponent));
    float whole = rintf(bounded);
    return power_of_two(bounded - whole + (is_beyond ? 0.0f : low), clamped(whole, -152.0f, 129.0f));
}

extern "C" __device__ float ms_powf_f32(float x, float y)
{
    if (x == 1.0f || y == 0.0f) {
        return 1.0f;
    }
    if (x != x || y != y) {
        return x + y;
    }
    float magnitude = fabsf(x);
    bool is_whole = truncf(y) == y;
    // From 2^24 on all numbers are even.
    bool is_odd = is_whole && fabsf(y) < 16777216.0f && ((int)y & 1);
    float power;
    if (magnitude == 0.0f || magnitude == __int_as_float(0x7f800000)) {
        power = (magnitude == 0.0f) == (y > 0.0f) ? 0.0f : __int_as_float(0x7f800000);
    } else if (x < 0.0f && !is_whole) {
        power = __int_as_float(0x7fffffff);
    } else {
        power = power_of_magnitude(magnitude, y);
    }
    return is_odd ? copysignf(power, x) : power;
}

extern "C" __device__ double ms_powf_f64(double x, double y) { return pow(x, y); }
extern "C" __device__ double ms_exp_f64(double x) { return exp(x); }
extern "C" __device__ double ms_exp2_f64(double x) { return exp2(x); }

// 1 / (1 + exp(-x)), by the exponential that cannot overflow.
template <typename T>
static __device__ __forceinline__ T sigmoid_from(T x, T power)
{
    T numerator = x < 0 ? power : T(1);
    return numerator / (T(1) + power);
}

extern "C" __device__ float ms_sigmoid_f32(float x) { return sigmoid_from(x, ms_exp_f32(-fabsf(x))); }
extern "C" __device__ double ms_sigmoid_f64(double x) { return sigmoid_from(x, exp(-fabs(x))); }

// Functions of numbers that an f16 or a bf16 can hold, for results that are rounded to that: by polynomials, so that nothing branches. Of every operand the
// rounded result is that of the function of f32 (`halves.rs` compares all of them). Beyond the bound, results are rounded to one.
template <int N>
static __device__ __forceinline__ float polynomial(const float (&of)[N], float x)
{
    float sum = of[N - 1];
#pragma unroll
    for (int power = N - 2; power >= 0; power--) {
        sum = fmaf(sum, x, of[power]);
    }
    return sum;
}

static __device__ __forceinline__ float lesser(float magnitude, float bound) { return magnitude > bound ? bound : magnitude; }

extern "C" __device__ float ms_erf_half(float x)
{
    // erf(r) / r in powers of r^2, from the middle of the squares on.
    const float of[] = {
        0.529105425f, -0.0704893172f, 0.0126529727f, -0.00220365427f, 0.000349665585f,
        -4.98807749e-05f, 6.35130937e-06f, -7.0332419e-07f, 7.39109254e-08f, -9.10196274e-09f,
        7.67057251e-10f};
    float r = lesser(fabsf(x), 2.65141463f);
    return copysignf(r * polynomial(of, fmaf(r, r, -3.515f)), x);
}

extern "C" __device__ float ms_tanh_half(float x)
{
    // tanh(r) / r in powers of r, from the middle on.
    const float of[] = {
        0.43294546f, -0.172709152f, 0.0579627752f, -0.0138789909f, 0.000796945475f,
        0.00139746163f, -0.000989894615f, 0.000390350382f, -6.15426543e-05f, 1.81838925e-06f,
        -1.58358689e-05f, -2.32817513e-07f, 9.83006885e-06f, -2.69710699e-06f, -1.1601503e-06f,
        4.4073181e-07f, 4.38583285e-08f, -2.09092779e-08f};
    float r = lesser(fabsf(x), 4.52f);
    return copysignf(r * polynomial(of, r - 2.26f), x);
}

// x to the power of n by squaring, in the order of LLVM's powi: every product is rounded as it is on a CPU.
template <typename T>
static __device__ __forceinline__ T power(T x, int n)
{
    T product = 1;
    for (int left = n;; x *= x) {
        if (left & 1) {
            product *= x;
        }
        left /= 2;
        if (left == 0) {
            break;
        }
    }
    return n < 0 ? T(1) / product : product;
}

extern "C" __device__ float ms_powi_f32(float x, int n) { return power(x, n); }
extern "C" __device__ double ms_powi_f64(double x, int n) { return power(x, n); }

typedef unsigned int u32;
typedef unsigned long long u64;

// What the four words of a block are for. Kinds have blocks of their own, so that arrays of several kinds but one seed are independent.
enum Kind { UNIFORM_F32, UNIFORM_F64, NORMAL_F32, NORMAL_F64 };

// 2 to the power of -bits.
#define UNIT(bits) (1.0 / (1ull << (bits)))

struct Words {
    u32 at[4];
};

// Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3"): the words of block `block` of `seed`.
static __device__ __forceinline__ Words philox(u64 seed, u64 block, Kind kind)
{
    u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)kind, d = 0;
    u32 key = (u32)seed, other_key = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 low = 0xD2511F53u * a, high = __umulhi(0xD2511F53u, a);
        u32 other_low = 0xCD9E8D57u * c, other_high = __umulhi(0xCD9E8D57u, c);
        a = other_high ^ b ^ key;
        b = other_low;
        c = high ^ d ^ other_key;
        d = low;
        key += 0x9E3779B9u;
        other_key += 0xBB67AE85u;
    }
    Words words = {{a, b, c, d}};
    return words;
}

// Two words of a block: the first two or the last two.
static __device__ __forceinline__ void pair_of(Words words, bool last, u32 *first, u32 *second)
{
    *first = last ? words.at[2] : words.at[0];
    *second = last ? words.at[3] : words.at[1];
}

// The upper 53 bits of two words, the second above.
static __device__ __forceinline__ u64 upper_53(u32 low, u32 high)
{
    return ((u64)high << 32 | low) >> 11;
}

// The upper 24 bits of a word, as multiples of 2^-24: four numbers to a block.
extern "C" __device__ float ms_uniform_f32(u64 seed, u64 index)
{
    Words words = philox(seed, index >> 2, UNIFORM_F32);
    u32 first, second;
    pair_of(words, index & 2, &first, &second);
    return (float)((index & 1 ? second : first) >> 8) * (float)UNIT(24);
}

// The upper 53 bits of two words, as multiples of 2^-53: two numbers to a block.
extern "C" __device__ double ms_uniform_f64(u64 seed, u64 index)
{
    u32 low, high;
    pair_of(philox(seed, index >> 1, UNIFORM_F64), index & 1, &low, &high);
    return (double)upper_53(low, high) * UNIT(53);
}

// Box and Muller: of two words one is the radius, the other the angle, for a number of even index and the next; four numbers to a block.
extern "C" __device__ float ms_normal_f32(u64 seed, u64 index)
{
    u32 first, second;
    pair_of(philox(seed, index >> 2, NORMAL_F32), index & 2, &first, &second);
    // Half a unit more than the word, so that the logarithm has no zero to be of.
    float radius = sqrtf(-2.0f * logf(fmaf((float)first, (float)UNIT(32), (float)UNIT(33))));
    float turns = (float)second * (float)UNIT(31);
    return radius * (index & 1 ? sinpif(turns) : cospif(turns));
}

// The same with the upper 53 bits of the first two words and of the last two: two numbers to a block.
extern "C" __device__ double ms_normal_f64(u64 seed, u64 index)
{
    Words words = philox(seed, index >> 1, NORMAL_F64);
    double first = (double)upper_53(words.at[0], words.at[1]), second = (double)upper_53(words.at[2], words.at[3]);
    double radius = sqrt(-2.0 * log(fma(first, UNIT(53), UNIT(54))));
    double turns = second * UNIT(52);
    return radius * (index & 1 ? sinpi(turns) : cospi(turns));
}
