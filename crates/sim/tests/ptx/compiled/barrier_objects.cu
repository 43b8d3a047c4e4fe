// nvrtc: --std=c++17 --gpu-architecture=compute_80 --define-macro=NDEBUG --cccl
// Barrier objects in shared memory: cuda::barrier, and the pipelines made of them.

#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

using Barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cg = cooperative_groups;

// An object, as raw memory: the types of the library have constructors.
#define OBJECTS(name, count) \
    __shared__ alignas(8) unsigned char name##_bytes[(count) * sizeof(Barrier)]; \
    Barrier* name = reinterpret_cast<Barrier*>(name##_bytes)

// RUN turns block=128
//   a s32[128] = i * 37 - 1000
//   o s32[384] => a[(i + 1) % 128] + i / 128
extern "C" __global__ void turns(const int* a, int* o) {
    OBJECTS(bar, 1);
    __shared__ int tile[128];
    if (threadIdx.x == 0) init(bar, blockDim.x);
    __syncthreads();
    for (int turn = 0; turn < 3; ++turn) {
        tile[threadIdx.x] = a[threadIdx.x] + turn;
        bar->arrive_and_wait();
        o[threadIdx.x + turn * 128] = tile[(threadIdx.x + 1) % blockDim.x];
        Barrier::arrival_token token = bar->arrive();
        bar->wait(std::move(token));
    }
}

// Threads that leave are not waited for any more; others arrive for several.
// RUN leaves block=96
//   o u32[96] => i < 64 ? i + 3 * ((i ^ 1) + 1) : 0
extern "C" __global__ void leaves(unsigned* o) {
    OBJECTS(bar, 1);
    __shared__ unsigned tile[64];
    if (threadIdx.x == 0) init(bar, blockDim.x);
    __syncthreads();
    if (threadIdx.x >= 64) {
        bar->arrive_and_drop();
        return;
    }
    bar->arrive_and_wait();
    tile[threadIdx.x] = threadIdx.x + 1;
    if (threadIdx.x % 2 == 0) {
        Barrier::arrival_token token = bar->arrive(2);
        bar->wait(std::move(token));
    } else {
        bar->wait_parity(true);
    }
    // The odd ones have not arrived by themselves, so that nothing orders what they wrote.
    __syncthreads();
    o[threadIdx.x] = threadIdx.x + 3 * tile[threadIdx.x ^ 1];
}

// A warp fills two buffers in turn, another empties them.
// RUN producer_and_consumer block=64
//   a s32[224] = i * i - 77
//   o s32[224] => 2 * a[i]
//   n s32 = 7
extern "C" __global__ void producer_and_consumer(const int* a, int* o, int n) {
    OBJECTS(ready, 2);
    OBJECTS(filled, 2);
    __shared__ int buffers[2][32];
    if (threadIdx.x < 2) {
        init(ready + threadIdx.x, blockDim.x);
        init(filled + threadIdx.x, blockDim.x);
    }
    __syncthreads();
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < n; ++i) {
            ready[i % 2].arrive_and_wait();
            buffers[i % 2][lane] = a[i * 32 + lane];
            (void)filled[i % 2].arrive();
        }
    } else {
        (void)ready[0].arrive();
        (void)ready[1].arrive();
        for (int i = 0; i < n; ++i) {
            filled[i % 2].arrive_and_wait();
            o[i * 32 + lane] = 2 * buffers[i % 2][lane];
            (void)ready[i % 2].arrive();
        }
    }
}

// Lanes of one warp wait for each other in different branches.
// RUN divided block=32
//   o u32[32] => i & 1 ? 100 + 31 - i : 31 - i + 200
extern "C" __global__ void divided(unsigned* o) {
    OBJECTS(bar, 2);
    __shared__ unsigned tile[32];
    if (threadIdx.x < 2) init(bar + threadIdx.x, 32);
    __syncthreads();
    if (threadIdx.x % 2 == 1) {
        bar[0].arrive_and_wait();
        tile[threadIdx.x] = 200 + threadIdx.x;
        bar[1].arrive_and_wait();
    } else {
        tile[threadIdx.x] = 100 + threadIdx.x;
        bar[0].arrive_and_wait();
        bar[1].arrive_and_wait();
    }
    o[threadIdx.x] = tile[31 - threadIdx.x];
}

// A pipeline of two stages that all threads of a block fill and empty.
// RUN unified block=128
//   a s32[640] = i * 11
//   o s32[640] => a[i / 128 * 128 + 127 - i % 128]
//   n s32 = 5
extern "C" __global__ void unified(const int* a, int* o, int n) {
    auto block = cg::this_thread_block();
    __shared__ int tile[2][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipeline = cuda::make_pipeline(block, &state);
    for (int done = 0, fetched = 0; done < n; ++done) {
        for (; fetched < n && fetched < done + 2; ++fetched) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, tile[fetched % 2], a + fetched * 128, sizeof(int) * 128, pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        o[done * 128 + threadIdx.x] = tile[done % 2][127 - threadIdx.x];
        pipeline.consumer_release();
    }
}

// Half of a block fills the stages, the other empties them.
// RUN halves block=128
//   a s32[320] = i * 13 + 5
//   o s32[320] => a[i / 64 * 64 + 63 - i % 64]
//   n s32 = 5
extern "C" __global__ void halves(const int* a, int* o, int n) {
    auto block = cg::this_thread_block();
    __shared__ int tile[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    bool produces = block.thread_rank() < 64;
    auto role = produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipeline = cuda::make_pipeline(block, &state, role);
    unsigned at = threadIdx.x % 64;
    for (int i = 0; i < n; ++i) {
        if (produces) {
            pipeline.producer_acquire();
            cuda::memcpy_async(&tile[i % 2][at], a + i * 64 + at, cuda::aligned_size_t<4>(4), pipeline);
            pipeline.producer_commit();
        } else {
            pipeline.consumer_wait();
            o[i * 64 + at] = tile[i % 2][63 - at];
            pipeline.consumer_release();
        }
    }
}

// Copies whose arrival on a barrier object is what waits for them.
// RUN copies block=64
//   a s32[64] = i * 17 + 3
//   o s32[64] => a[63 - i]
extern "C" __global__ void copies(const int* a, int* o) {
    OBJECTS(bar, 1);
    __shared__ int tile[64];
    if (threadIdx.x == 0) init(bar, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(tile + threadIdx.x, a + threadIdx.x, cuda::aligned_size_t<4>(4), *bar);
    bar->arrive_and_wait();
    o[threadIdx.x] = tile[63 - threadIdx.x];
}
