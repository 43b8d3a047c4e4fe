// Times a sum of 2^28 floats, added as doubles, with several numbers of blocks and threads.
//
//   nvcc -O3 -arch=sm_90 -o blocks_of_a_sum blocks_of_a_sum.cu && ./blocks_of_a_sum
//
// "alone" is the time between two events around the kernel on an idle device, "call" that of the
// host from the launch until cudaDeviceSynchronize returns: medians of 22.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

__device__ unsigned counter;
__device__ double partial[1 << 16];

// Adds the threads' values; the last block adds those of all blocks.
template <int THREADS> __device__ void finish(double value, float *out, unsigned blocks) {
  __shared__ double of_warp[THREADS / 32];
  __shared__ bool is_last;
  auto of_block = [&](double x) {
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    double all = 0;
    for (double warp : of_warp) all += warp;
    __syncthreads();
    return all;
  };
  double all = of_block(value);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = all;
    __threadfence();
    is_last = atomicInc(&counter, blocks - 1) == blocks - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  double x = 0;
  for (unsigned i = threadIdx.x; i < blocks; i += THREADS) x += ((volatile double *)partial)[i];
  all = of_block(x);
  if (threadIdx.x == 0) *out = float(all);
}

template <int THREADS, int LOADS>
__global__ void __launch_bounds__(THREADS) sum(const float4 *x, long n, float *out) {
  const long step = (long)gridDim.x * THREADS;
  long i = (long)blockIdx.x * THREADS + threadIdx.x;
  double all = 0;
  auto add = [&](float4 v) { all += v.x; all += v.y; all += v.z; all += v.w; };
  for (; i + (LOADS - 1) * step < n; i += LOADS * step) {
    float4 v[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; k++) v[k] = x[i + k * step];
#pragma unroll
    for (int k = 0; k < LOADS; k++) add(v[k]);
  }
  for (; i < n; i += step) add(x[i]);
  finish<THREADS>(all, out, gridDim.x);
}

static float *x, *out;
static cudaEvent_t before, after;

template <int THREADS, int LOADS> void run(int blocks) {
  auto launch = [&] { sum<THREADS, LOADS><<<blocks, THREADS>>>((float4 *)x, (1l << 28) / 4, out); };
  std::vector<double> alone, call;
  for (int round = 0; round < 27; round++) {
    cudaDeviceSynchronize();
    auto start = std::chrono::steady_clock::now();
    launch();
    cudaDeviceSynchronize();
    auto end = std::chrono::steady_clock::now();
    cudaEventRecord(before);
    launch();
    cudaEventRecord(after);
    cudaDeviceSynchronize();
    float ms;
    cudaEventElapsedTime(&ms, before, after);
    if (round < 5) continue;
    call.push_back(std::chrono::duration<double, std::micro>(end - start).count());
    alone.push_back(ms * 1e3);
  }
  std::sort(alone.begin(), alone.end());
  std::sort(call.begin(), call.end());
  printf("%4d threads, %d loads, %5d blocks: alone %.1f us, call %.1f us (%s)\n", THREADS, LOADS,
         blocks, alone[alone.size() / 2], call[call.size() / 2],
         cudaGetErrorString(cudaGetLastError()));
}

int main() {
  cudaMalloc(&x, 1l << 30);
  cudaMalloc(&out, 4);
  cudaMemset(x, 0, 1l << 30);
  cudaEventCreate(&before);
  cudaEventCreate(&after);
  for (int blocks : {1024, 1056, 2112, 4096, 5280, 8192, 16384, 32768}) run<256, 4>(blocks);
  for (int blocks : {1024, 1056, 2112, 5280, 16384}) run<256, 8>(blocks);
  for (int blocks : {528, 1056, 2112, 8192}) run<512, 4>(blocks);
  for (int blocks : {264, 528, 1056}) run<1024, 4>(blocks);
  for (int blocks : {2112, 4224, 8192, 16384}) run<128, 4>(blocks);
}
