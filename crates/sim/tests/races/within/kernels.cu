// Kernels whose threads race with each other, and their right twins. Compiled with line numbers, so that reports name the lines here:
//   python3 xtask/nvrtc.py target/nvrtc crates/sim/tests/races/within/kernels.cu \
//     --gpu-architecture=compute_75 --std=c++03 --generate-line-info | sed 's|"/.*/kernels.cu"|"kernels.cu"|'
typedef unsigned int u32;

// Each thread hands its value to the one on the left, by way of shared memory.
extern "C" __global__ void shift_unsynced(const float* in, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
}
extern "C" __global__ void shift(const float* in, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
}

// A tile that is filled anew while others still read it: the second barrier of the loop is missing.
extern "C" __global__ void rounds_unsynced(const float* in, float* out, int rounds) {
  __shared__ float tile[64];
  float sum = 0;
  #pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    tile[threadIdx.x] = in[round * 64 + threadIdx.x];
    __syncthreads();
    sum += tile[63 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}
// Two tiles in turn need one barrier a round.
extern "C" __global__ void rounds(const float* in, float* out, int rounds) {
  __shared__ float tile[2][64];
  float sum = 0;
  #pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    tile[round & 1][threadIdx.x] = in[round * 64 + threadIdx.x];
    __syncthreads();
    sum += tile[round & 1][63 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

// The sum of a warp, by way of shared memory.
extern "C" __global__ void warp_sum_unsynced(const float* in, float* out) {
  extern __shared__ float part[];
  part[threadIdx.x] = in[threadIdx.x];
  #pragma unroll 1
  for (int half = 16; half > 0; half /= 2)
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  if (threadIdx.x == 0) *out = part[0];
}
extern "C" __global__ void warp_sum(const float* in, float* out) {
  extern __shared__ float part[];
  part[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  #pragma unroll 1
  for (int half = 16; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncwarp();
  }
  if (threadIdx.x == 0) *out = part[0];
}

// Every block counts itself.
extern "C" __global__ void count_plainly(u32* count) {
  if (threadIdx.x == 0) *count = *count + 1;
}
extern "C" __global__ void count(u32* count) {
  if (threadIdx.x == 0) atomicAdd(count, 1);
}
// Some count atomically, one does not.
extern "C" __global__ void count_both_ways(u32* count) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 1) *count = 7;
  else atomicAdd(count, 1);
}
// Atomic for its own block only.
extern "C" __global__ void count_for_the_block(u32* count) {
  if (threadIdx.x == 0) atomicAdd_block(count, 1);
}

// The sum of a warp, by way of registers.
extern "C" __global__ void shuffled_sum(const float* in, float* out) {
  float sum = in[threadIdx.x];
  for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffff, sum, half);
  out[threadIdx.x] = sum;
}

// Each block writes its number, and reads what its neighbour wrote.
extern "C" __global__ void neighbours(u32* out, u32* seen) {
  if (threadIdx.x != 0) return;
  out[blockIdx.x] = blockIdx.x;
  seen[blockIdx.x] = out[(blockIdx.x + 1) % gridDim.x];
}

// The last block to be done sums up what all have written.
template <int FENCE> __device__ void last_block(const u32* in, u32* sums, u32* done, u32* out) {
  __shared__ bool last;
  __shared__ u32 total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, in[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = total;
    if (FENCE == 1) __threadfence_block();
    if (FENCE >= 2) __threadfence();
    last = atomicInc(done, gridDim.x) == gridDim.x - 1;
    if (FENCE == 3) __threadfence_block();
    if (FENCE == 4) __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) atomicAdd(out, sums[threadIdx.x]);
}
extern "C" __global__ void last_block_unfenced(const u32* in, u32* sums, u32* done, u32* out) {
  last_block<0>(in, sums, done, out);
}
extern "C" __global__ void last_block_fenced_for_itself(const u32* in, u32* sums, u32* done, u32* out) {
  last_block<1>(in, sums, done, out);
}
// Fenced in front of the count only, as in code from before Volta.
extern "C" __global__ void last_block_unacquired(const u32* in, u32* sums, u32* done, u32* out) {
  last_block<2>(in, sums, done, out);
}
extern "C" __global__ void last_block_acquired_for_itself(const u32* in, u32* sums, u32* done, u32* out) {
  last_block<3>(in, sums, done, out);
}
extern "C" __global__ void last_block_fenced(const u32* in, u32* sums, u32* done, u32* out) {
  last_block<4>(in, sums, done, out);
}

// A lock around a plain counter; every thread takes it once.
template <int FENCE> __device__ void fence() {
  if (FENCE == 1) __threadfence_block();
  if (FENCE == 2) __threadfence();
}
template <int ACQUIRE, int RELEASE> __device__ void locked(u32* lock, u32* count) {
  bool had = false;
  while (!had)
    if (atomicCAS(lock, 0, 1) == 0) {
      fence<ACQUIRE>();
      *count += 1;
      fence<RELEASE>();
      atomicExch(lock, 0);
      had = true;
    }
}
extern "C" __global__ void locked_unfenced(u32* lock, u32* count) { locked<0, 0>(lock, count); }
extern "C" __global__ void locked_unacquired(u32* lock, u32* count) { locked<0, 2>(lock, count); }
extern "C" __global__ void locked_unreleased(u32* lock, u32* count) { locked<2, 0>(lock, count); }
extern "C" __global__ void locked_acquired_for_itself(u32* lock, u32* count) { locked<1, 2>(lock, count); }
extern "C" __global__ void locked_released_for_itself(u32* lock, u32* count) { locked<2, 1>(lock, count); }
extern "C" __global__ void locked_for_the_block(u32* lock, u32* count) { locked<1, 1>(lock, count); }
extern "C" __global__ void locked_fenced(u32* lock, u32* count) { locked<2, 2>(lock, count); }

// The first block hands a value to the others, which wait for a flag.
#define HAND(name, STORE, LOAD, FENCE)                                                             \
  extern "C" __global__ void name(u32* flag, u32* value, u32* out) {                               \
    if (threadIdx.x != 0) return;                                                                  \
    if (blockIdx.x == 0) {                                                                         \
      *value = 7;                                                                                  \
      asm volatile(STORE " [%0], 1;" ::"l"(flag) : "memory");                                      \
    } else {                                                                                       \
      u32 set = 0;                                                                                 \
      while (set == 0) asm volatile(LOAD " %0, [%1];" : "=r"(set) : "l"(flag) : "memory");         \
      FENCE;                                                                                       \
      out[blockIdx.x] = *value;                                                                    \
    }                                                                                              \
  }
HAND(hand_acquired, "st.release.gpu.u32", "ld.acquire.gpu.u32", )
HAND(hand_fenced, "st.release.gpu.u32", "ld.relaxed.gpu.u32", __threadfence())
HAND(hand_unacquired, "st.release.gpu.u32", "ld.relaxed.gpu.u32", )
HAND(hand_unreleased, "st.relaxed.gpu.u32", "ld.acquire.gpu.u32", )
HAND(hand_volatile, "membar.gl; st.volatile.u32", "ld.volatile.u32", __threadfence())
HAND(hand_acquired_for_the_block, "st.release.gpu.u32", "ld.acquire.cta.u32", )

// The first warp fills, the second drains: two named barriers, each for both warps, and no warp waits longer than it must.
extern "C" __global__ void hand_over(const u32* in, u32* out, int rounds) {
  __shared__ u32 box[32];
  const u32 lane = threadIdx.x % 32;
  #pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    if (threadIdx.x < 32) {
      if (round > 0) asm volatile("bar.sync 2, 64;" ::: "memory");
      box[lane] = in[round * 32 + lane];
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      out[round * 32 + lane] = box[31 - lane];
      if (round + 1 < rounds) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}
// The same, but the second warp gives the box back before it has read it.
extern "C" __global__ void hand_over_early(const u32* in, u32* out, int rounds) {
  __shared__ u32 box[32];
  const u32 lane = threadIdx.x % 32;
  #pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    if (threadIdx.x < 32) {
      if (round > 0) asm volatile("bar.sync 2, 64;" ::: "memory");
      box[lane] = in[round * 32 + lane];
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      if (round + 1 < rounds) asm volatile("bar.arrive 2, 64;" ::: "memory");
      out[round * 32 + lane] = box[31 - lane];
    }
  }
}

// All threads of the block agree on a value, which all write.
extern "C" __global__ void all_write(u32* out) {
  __shared__ unsigned char flags[8];
  flags[threadIdx.x % 4 + 2] = 1;
  __syncthreads();
  out[threadIdx.x] = flags[2];
}

// The two halves of a warp swap their values and wait for each other at different places.
extern "C" __global__ void swap_halves(u32* out) {
  __shared__ u32 box[32];
  const u32 lane = threadIdx.x;
  if (lane < 16) {
    box[lane] = lane;
    __syncwarp();
    out[lane] = box[lane + 16] + 1;
  } else {
    box[lane] = 2 * lane;
    __syncwarp();
    out[lane] = box[lane - 16] + 2;
  }
}

// A compare-and-swap that finds something else only reads.
extern "C" __global__ void swap_in_vain(u32* place, u32* out) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 1) out[0] = *place;
  else out[blockIdx.x + 1] = atomicCAS(place, 7, 8);
}

// The second warp is gone when the first waits for it.
extern "C" __global__ void write_and_exit(u32* out) {
  __shared__ u32 box[64];
  box[threadIdx.x] = threadIdx.x;
  if (threadIdx.x >= 32) return;
  __syncthreads();
  out[threadIdx.x] = box[threadIdx.x + 32];
}

// All blocks read, and the last one writes.
extern "C" __global__ void read_by_all(u32* place, u32* out) {
  if (threadIdx.x != 0) return;
  out[blockIdx.x] = *place;
  if (blockIdx.x == gridDim.x - 1) *place = 1;
}
// The same, when all have said that they have read, but for one block.
extern "C" __global__ void read_by_most(u32* place, u32* out, u32* done, u32 silent) {
  if (threadIdx.x != 0) return;
  out[blockIdx.x] = *place;
  __threadfence();
  if (blockIdx.x != silent) atomicAdd(done, 1);
  if (blockIdx.x == gridDim.x - 1) {
    while (atomicAdd(done, 0) < gridDim.x - 1) {}
    __threadfence();
    *place = 1;
  }
}

// The last block reads what all threads have written: each thread fences, and one takes the ticket.
template <int RELEASE, int ACQUIRE> __device__ void ticket(u32* values, u32* done, u32* out) {
  __shared__ bool last;
  values[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
  fence<RELEASE>();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  fence<ACQUIRE>();
  u32 sum = 0;
  for (u32 i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x) sum += values[i];
  out[threadIdx.x] = sum;
}
extern "C" __global__ void ticket_fenced(u32* values, u32* done, u32* out) { ticket<2, 2>(values, done, out); }
extern "C" __global__ void ticket_unreleased(u32* values, u32* done, u32* out) { ticket<0, 2>(values, done, out); }
extern "C" __global__ void ticket_unacquired(u32* values, u32* done, u32* out) { ticket<2, 0>(values, done, out); }
extern "C" __global__ void ticket_acquired_for_itself(u32* values, u32* done, u32* out) { ticket<2, 1>(values, done, out); }

// The example of __threadfence() in CUDA's Programming Guide: the block with the last ticket reads volatile results, and
// resets the count plainly.
extern "C" __global__ void ticket_reset(volatile float* results, u32* count, float* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    results[blockIdx.x] = blockIdx.x;
    __threadfence();
    last = atomicInc(count, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (u32 i = 0; i < gridDim.x; i++) sum += results[i];
    *out = sum;
    *count = 0;
  }
}
