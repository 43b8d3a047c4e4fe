// Softmax of long rows by a block that computes one row after another: in three visits, with a part of
// the row in shared memory, or with all of it in registers and shared memory.
//
//     nvcc -O3 -arch=sm_90 -o long_rows long_rows.cu && ./long_rows
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        cudaError_t e = (x);                                                                       \
        if (e) {                                                                                   \
            printf("%s: %s\n", #x, cudaGetErrorString(e));                                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

template <int T> __device__ float reduce(float v, bool is_max, float *shared) {
    for (int o = 16; o; o /= 2) {
        float w = __shfl_xor_sync(~0u, v, o);
        v = is_max ? fmaxf(v, w) : v + w;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    float all = shared[0];
    for (int i = 1; i < T / 32; i++) all = is_max ? fmaxf(all, shared[i]) : all + shared[i];
    return all;
}

__device__ float greatest(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
__device__ float powers(float4 v, float m) {
    return (expf(v.x - m) + expf(v.y - m)) + (expf(v.z - m) + expf(v.w - m));
}
__device__ float4 shares(float4 v, float m, float s) {
    return make_float4(expf(v.x - m) / s, expf(v.y - m) / s, expf(v.z - m) / s, expf(v.w - m) / s);
}

extern __shared__ float4 kept[];

// Visits the groups of four elements of each thread, the first `held` of which the first visit keeps.
template <int T, int U, class F>
__device__ void visit(const float4 *row, unsigned groups, unsigned held, bool first, F f) {
    unsigned at = threadIdx.x;
    if (!first)
        for (; at < held; at += T) f(at, kept[at]);
    for (; at + (U - 1) * T < groups; at += U * T) {
        float4 v[U];
        for (int u = 0; u < U; u++) v[u] = row[at + u * T];
        for (int u = 0; u < U; u++) {
            if (first && at + u * T < held) kept[at + u * T] = v[u];
            f(at + u * T, v[u]);
        }
    }
    for (; at < groups; at += T) {
        float4 v = row[at];
        if (first && at < held) kept[at] = v;
        f(at, v);
    }
}

template <int T, int U>
__global__ void __launch_bounds__(T)
visits(const float4 *in, float4 *out, unsigned rows, unsigned groups, unsigned held) {
    __shared__ float shared[32];
    for (unsigned r = blockIdx.x; r < rows; r += gridDim.x) {
        const float4 *row = in + (size_t)r * groups;
        float4 *to = out + (size_t)r * groups;
        float m = -INFINITY, s = 0;
        visit<T, U>(row, groups, held, true, [&](unsigned, float4 v) { m = fmaxf(m, greatest(v)); });
        m = reduce<T>(m, true, shared);
        visit<T, U>(row, groups, held, false, [&](unsigned, float4 v) { s += powers(v, m); });
        s = reduce<T>(s, false, shared);
        visit<T, U>(row, groups, held, false, [&](unsigned at, float4 v) { to[at] = shares(v, m, s); });
        __syncthreads();
    }
}

// R groups of each thread are in registers, and the others in shared memory.
template <int T, int R>
__global__ void __launch_bounds__(T)
once(const float4 *in, float4 *out, unsigned rows, unsigned groups) {
    __shared__ float shared[32];
    for (unsigned r = blockIdx.x; r < rows; r += gridDim.x) {
        const float4 *row = in + (size_t)r * groups;
        float4 *to = out + (size_t)r * groups, mine[R];
        for (int i = 0; i < R; i++) mine[i] = row[threadIdx.x + i * T];
        float m = -INFINITY, s = 0;
        for (unsigned at = threadIdx.x + R * T; at < groups; at += 4 * T) {
            float4 v[4];
            for (int u = 0; u < 4; u++)
                v[u] = at + u * T < groups ? row[at + u * T] : make_float4(m, m, m, m);
            for (int u = 0; u < 4; u++) {
                if (at + u * T < groups) kept[at + u * T - R * T] = v[u];
                m = fmaxf(m, greatest(v[u]));
            }
        }
        for (int i = 0; i < R; i++) m = fmaxf(m, greatest(mine[i]));
        m = reduce<T>(m, true, shared);
        for (int i = 0; i < R; i++) s += powers(mine[i], m);
        for (unsigned at = threadIdx.x + R * T; at < groups; at += T) s += powers(kept[at - R * T], m);
        s = reduce<T>(s, false, shared);
        for (int i = 0; i < R; i++) to[threadIdx.x + i * T] = shares(mine[i], m, s);
        for (unsigned at = threadIdx.x + R * T; at < groups; at += T)
            to[at] = shares(kept[at - R * T], m, s);
        __syncthreads();
    }
}

// The median of twenty launches, in microseconds.
template <class L> float median(L launch) {
    cudaEvent_t a, b;
    cudaEventCreate(&a);
    cudaEventCreate(&b);
    std::vector<float> t;
    for (int i = 0; i < 25; i++) {
        float ms;
        cudaEventRecord(a);
        launch();
        cudaEventRecord(b);
        cudaEventSynchronize(b);
        cudaEventElapsedTime(&ms, a, b);
        if (i > 4) t.push_back(ms * 1000);
    }
    std::sort(t.begin(), t.end());
    return t[t.size() / 2];
}

const float4 *in;
float4 *out;
float copy;

template <int T, int U> int run_visits(unsigned rows, unsigned groups, unsigned kib, int blocks) {
    CHECK(cudaFuncSetAttribute(visits<T, U>, cudaFuncAttributeMaxDynamicSharedMemorySize, kib << 10));
    unsigned held = std::min<unsigned>(groups, (kib << 10) / 16 / T * T);
    float t = median([&] { visits<T, U><<<blocks, T, kib << 10>>>(in, out, rows, groups, held); });
    CHECK(cudaGetLastError());
    printf("%5u x %6u, %4d threads, %d in flight, %3u KiB kept, %4d blocks: %7.1f us, %.2f of a copy\n",
           rows, groups * 4, T, U, kib, blocks, t, copy / t);
    return 0;
}

template <int T, int R> int run_once(unsigned rows, unsigned groups, int blocks) {
    unsigned bytes = (groups - R * T) * 16;
    if (groups < R * T || bytes > 226u << 10) return 0;
    CHECK(cudaFuncSetAttribute(once<T, R>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    float t = median([&] { once<T, R><<<blocks, T, bytes>>>(in, out, rows, groups); });
    CHECK(cudaGetLastError());
    printf("%5u x %6u, %4d threads, %2d groups in registers, %3u KiB, %4d blocks: %7.1f us, %.2f of a copy\n",
           rows, groups * 4, T, R, bytes >> 10, blocks, t, copy / t);
    return 0;
}

int main() {
    size_t bytes = (size_t)1 << 28;
    float4 *from;
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemset(from, 0, bytes));
    in = from;
    copy = median([&] { cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice); });
    printf("copy %.1f us, %.0f GB/s\n", copy, 2 * bytes / copy / 1e3);
    for (unsigned length : {65536u, 32768u, 16384u}) {
        unsigned rows = bytes / 4 / length, groups = length / 4;
        for (unsigned kib : {0u, 96u, 160u, 200u, 224u}) {
            run_visits<512, 2>(rows, groups, kib, 132);
            run_visits<512, 4>(rows, groups, kib, 132);
            run_visits<512, 8>(rows, groups, kib, 132);
            run_visits<1024, 2>(rows, groups, kib, 132);
            run_visits<1024, 4>(rows, groups, kib, 132);
        }
        for (unsigned kib : {64u, 96u, 112u}) {
            run_visits<512, 2>(rows, groups, kib, 264);
            run_visits<512, 4>(rows, groups, kib, 264);
        }
        for (int blocks : {132, 264, 396}) {
            run_once<512, 4>(rows, groups, blocks);
            run_once<512, 8>(rows, groups, blocks);
            run_once<512, 12>(rows, groups, blocks);
            run_once<512, 16>(rows, groups, blocks);
            run_once<1024, 4>(rows, groups, blocks);
            run_once<1024, 6>(rows, groups, blocks);
            run_once<1024, 8>(rows, groups, blocks);
        }
    }
    return 0;
}
