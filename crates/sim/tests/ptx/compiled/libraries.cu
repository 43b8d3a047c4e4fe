// nvrtc: --std=c++17 --gpu-architecture=compute_80 --define-macro=NDEBUG --device-int128 --cccl
// What CUDA's libraries for kernels are made of: cooperative groups, CUB, libcu++, and integers of 128 bits.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda/atomic>
#include <cuda/semaphore>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

// RUN tiles block=64
//   a s32[64] = i * 7 % 13
//   o s32[256] => i < 64 ? sum(32, a[i / 32 * 32 + j]) : i < 128 ? sum(i % 8 + 1, a[(i - 64) / 8 * 8 + j]) : i < 192 ? sum(32, (a[(i - 128) / 32 * 32 + j] & 1) == (a[i - 128] & 1) ? a[(i - 128) / 32 * 32 + j] : 0) : a[(i - 192) / 16 * 16 + 3] + a[i - 192 ^ 1]
extern "C" __global__ void tiles(const int* a, int* o) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto small = cg::tiled_partition<8>(warp);
    auto half = cg::tiled_partition<16>(warp);
    unsigned at = block.thread_rank();
    int value = a[at];
    o[at] = cg::reduce(warp, value, cg::plus<int>());
    o[at + 64] = cg::inclusive_scan(small, value, cg::plus<int>());
    auto alike = cg::labeled_partition(warp, value & 1);
    o[at + 128] = cg::reduce(alike, value, cg::plus<int>());
    o[at + 192] = half.shfl(value, 3) + warp.shfl_xor(value, 1);
}

// Tiles of more than a warp meet in shared memory that is reserved for the library.
// RUN large_tiles block=128
//   o u32[128] => 2016 + i / 64 * 4096
extern "C" __global__ void large_tiles(unsigned* o) {
    __shared__ cg::block_tile_memory<128> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<64>(block);
    o[threadIdx.x] = cg::reduce(tile, threadIdx.x, cg::plus<unsigned>());
    tile.sync();
}

// RUN sort block=128
//   a s32[256] = (i * 73 & 255) - 100
//   o s32[256] => i - 100
extern "C" __global__ void sort(const int* a, int* o) {
    using Sort = cub::BlockRadixSort<int, 128, 2>;
    __shared__ typename Sort::TempStorage storage;
    int keys[2] = {a[threadIdx.x * 2], a[threadIdx.x * 2 + 1]};
    Sort(storage).Sort(keys);
    o[threadIdx.x * 2] = keys[0];
    o[threadIdx.x * 2 + 1] = keys[1];
}

// RUN scan block=128
//   a s32[128] = i * i - 500
//   o s32[128] => sum(i, a[j])
extern "C" __global__ void scan(const int* a, int* o) {
    using Scan = cub::BlockScan<int, 128>;
    __shared__ typename Scan::TempStorage storage;
    int sum;
    Scan(storage).ExclusiveSum(a[threadIdx.x], sum);
    o[threadIdx.x] = sum;
}

// RUN atomics grid=4 block=64
//   o u64[6] = {0, 0, 1000000, 0xffff, 0, 0} => {256, 255, 0, 0x00ff, 65280, 4}
extern "C" __global__ void atomics(unsigned long long* o) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    using Whole = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>;
    Whole(o[0]).fetch_add(1, cuda::memory_order_relaxed);
    Whole(o[1]).fetch_max(at);
    Whole(o[2]).fetch_min(at, cuda::memory_order_acq_rel);
    Whole(o[3]).fetch_and(~(1ull << (8 + at % 8)), cuda::memory_order_release);
    Whole sum(o[4]);
    unsigned long long found = sum.load(cuda::memory_order_relaxed);
    while (!sum.compare_exchange_weak(found, found + at * 2)) {}
    __shared__ alignas(8) unsigned char raw[sizeof(cuda::counting_semaphore<cuda::thread_scope_block, 2>)];
    auto& guard = *reinterpret_cast<cuda::counting_semaphore<cuda::thread_scope_block, 2>*>(raw);
    if (threadIdx.x == 0) new (&guard) cuda::counting_semaphore<cuda::thread_scope_block, 2>(2);
    __syncthreads();
    guard.acquire();
    if (threadIdx.x == 0) Whole(o[5]).fetch_add(1);
    guard.release();
}

// RUN wide block=32
//   a u64[32] = (i * 0x9E3779B97F4A7C15 + 3 & 0xffffffffffffffff) >> 4
//   o u64[96] => i % 3 == 0 ? a[i / 3] * a[i / 3 ^ 1] : i % 3 == 1 ? a[i / 3] * a[i / 3 ^ 1] >> 64 : a[i / 3] * a[i / 3 ^ 1] % 1000003
extern "C" __global__ void wide(const unsigned long long* a, unsigned long long* o) {
    unsigned __int128 x = a[threadIdx.x], y = a[threadIdx.x ^ 1];
    o[threadIdx.x * 3] = static_cast<unsigned long long>(x * y);
    o[threadIdx.x * 3 + 1] = static_cast<unsigned long long>(x * y >> 64);
    o[threadIdx.x * 3 + 2] = static_cast<unsigned long long>(x * y % 1000003);
}

// RUN brains block=64
//   a f32[64] = (i - 31) * 1.0078125
//   o bf16[64] => bf16(a[i]) + bf16(bf16(a[63 - i]) * 2.0)
//   h f16[64] => bf16(a[i])
//   n s32[64] => trunc(bf16(a[i]))
extern "C" __global__ void brains(const float* a, __nv_bfloat16* o, __half* h, int* n) {
    __nv_bfloat16 x = __float2bfloat16(a[threadIdx.x]), y = __float2bfloat16(a[63 - threadIdx.x]);
    o[threadIdx.x] = __hadd(x, __hmul(y, __float2bfloat16(2.0f)));
    h[threadIdx.x] = __float2half(__bfloat162float(x));
    n[threadIdx.x] = __bfloat162int_rz(x);
}
