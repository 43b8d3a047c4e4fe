// nvrtc: --std=c++11
// printf, assert, and intrinsics that become instructions of their own.

// RUN prints block=3
//   n s32 = 3
//   f f32 = 1.5
//   PRINTS "thread 0 of 3:  1.50 text c % 0xff 1099511627776 1.500000e+00 1.5\n"
//   PRINTS "thread 1 of 3:  1.50 text c % 0xff 1099511627776 1.500000e+00 1.5\n"
//   PRINTS "thread 2 of 3:  1.50 text c % 0xff 1099511627776 1.500000e+00 1.5\n"
//   PRINTS "plain\n"
extern "C" __global__ void prints(int n, float f)
{
    printf("thread %d of %d: %5.2f %s %c %% %#x %llu %e %g\n", threadIdx.x, n, f, "text", 'c', 255, 1ull << 40, f, (double)f);
    if (threadIdx.x == 0)
        printf("plain\n");
}

// RUN asserts block=1
//   n s32 = 3
// RUN asserts block=1
//   n s32 = 4
//   FAULTS assertion `n == 3 && "three"` failed, in services.cu
extern "C" __global__ void asserts(int n)
{
    assert(n == 3 && "three");
}

// RUN simd block=32
//   a u32[32] = i * 0x9E3779B9
//   b u32[32] = i * 0x85EBCA6B + 77
//   o0 u32[32] => sum(4, (u8(a[i] >> 8 * j) + u8(b[i] >> 8 * j) & 0xff) << 8 * j)
//   o1 u32[32] => sum(4, abs(u8(a[i] >> 8 * j) - u8(b[i] >> 8 * j)))
//   o2 u32[32] => sum(2, max(s16(a[i] >> 16 * j), s16(b[i] >> 16 * j)) + 65536 << 16 * j) - 65536 - (65536 << 16) + sum(2, (max(s16(a[i] >> 16 * j), s16(b[i] >> 16 * j)) < 0) * 65536 << 16 * j)
//   o3 s32[32] => s32(a[i]) * s32(b[i]) >> 32
//   o4 u32[32] => ((b[i] << 32 | a[i]) << 5) >> 32
extern "C" __global__ void simd(const unsigned* a, const unsigned* b, unsigned* o0, unsigned* o1, unsigned* o2, int* o3, unsigned* o4)
{
    int i = threadIdx.x;
    unsigned x = a[i], y = b[i];
    o0[i] = __vadd4(x, y);
    o1[i] = __vsadu4(x, y);
    o2[i] = __vmaxs2(x, y);
    o3[i] = __mulhi((int)x, (int)y);
    o4[i] = __funnelshift_l(x, y, 5);
}

// RUN histogram grid=4 block=64
//   a u32[256] = i * 0x9E3779B9 >> 7
//   h u32[8] => sum(256, a[j] % 8 == i)
extern "C" __global__ void histogram(const unsigned* a, unsigned* h)
{
    __shared__ unsigned own[8];
    if (threadIdx.x < 8)
        own[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&own[a[blockIdx.x * blockDim.x + threadIdx.x] % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8)
        atomicAdd(&h[threadIdx.x], own[threadIdx.x]);
}

// RUN reduction block=64
//   a s32[64] = i * i - 700
//   o s32[2] => sum(32, a[32 * i + j])
//   b u32[2] => sum(32, (a[32 * i + j] > 0) << j)
extern "C" __global__ void reduction(const int* a, int* o, unsigned* b)
{
    int value = a[threadIdx.x];
    unsigned positive = __ballot_sync(~0u, value > 0);
    for (int distance = 16; distance; distance /= 2)
        value += __shfl_down_sync(~0u, value, distance);
    if (threadIdx.x % 32 == 0) {
        o[threadIdx.x / 32] = value;
        b[threadIdx.x / 32] = positive;
    }
}

// RUN shorts block=32
//   h u16[2] = 0 => i == 0 ? 32 : 0
extern "C" __global__ void shorts(unsigned short* h)
{
    unsigned short old = h[0], seen;
    do {
        seen = old;
        old = atomicCAS(h, seen, (unsigned short)(seen + 1));
    } while (old != seen);
}
