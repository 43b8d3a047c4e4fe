// Matrix products of floats of 16 bits by tensor cores: out[z] = a[z] . b[z], with the sizes and strides of product.cuh.
//
// Of each factor, either the rows or the columns are contiguous: `A_ALONG_K` says whether neighbours of a are along k, and
// `B_ALONG_K` the same of b. Lines of neighbours begin at multiples of 16 bytes. n is a multiple of 4.
//
// A block has a tile of 128 x 128 elements, and each of its four warps a quarter. The next stages of k are copied to
// shared memory while one is multiplied. Beyond an edge, zeros are copied.
//
// Rounding: the instructions `mma` add 16 products to the sum so far, in the order of k. How they round is up to the
// device; docs/measurements/2026-11-28-matrix-products.md says what GPUs of compute capability 9.0 do.
#include "product.cuh"

typedef unsigned int u32;

#define TILE 128
#define STEP 32
#define STAGES 3
#define TENSOR_THREADS 128
// The bytes of a factor's part of a stage, and of both.
#define PART_BYTES (TILE * STEP * 2)
#define STAGE_BYTES (2 * PART_BYTES)
// The bytes of a copy.
#define CHUNK_BYTES 16

#define MMA(T, NAME)                                                                                              \
  __device__ __forceinline__ void multiply_add(T*, float (&sum)[4], const u32 (&a)[4], u32 b, u32 b_next) {       \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, "                 \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                  \
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(b_next));                              \
  }                                                                                                               \
  /* Rounds two neighbours. */                                                                                    \
  __device__ __forceinline__ u32 rounded(T*, float first, float second) {                                         \
    u32 both;                                                                                                     \
    asm("cvt.rn." NAME "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));                              \
    return both;                                                                                                  \
  }
MMA(Half, "f16")
MMA(BHalf, "bf16")

// Where a chunk of eight elements is within a factor's part of a stage: `line` counts elements across k if neighbours
// are along k, and else those along k. Eight lines that are read at once are in different banks.
template <bool ALONG_K>
__device__ __forceinline__ u32 place(u32 line, u32 chunk) {
  return ALONG_K ? line * (STEP * 2) + (chunk ^ (line >> 1 & 3)) * CHUNK_BYTES
                 : line * (TILE * 2) + (chunk ^ (line & 7)) * CHUNK_BYTES;
}

// Begins to copy a factor's part of a stage from `from`, where `k_left` and `across_left` elements remain.
template <bool ALONG_K, typename T>
__device__ __forceinline__ void copy(u32 part, const T* from, i64 line_stride, i64 k_left, i64 across_left) {
  const u32 chunks = (ALONG_K ? STEP : TILE) / 8;
#pragma unroll
  for (u32 turn = 0; turn < PART_BYTES / CHUNK_BYTES / TENSOR_THREADS; ++turn) {
    const u32 id = threadIdx.x + turn * TENSOR_THREADS, line = id / chunks, chunk = id % chunks;
    const i64 lines_left = ALONG_K ? across_left : k_left, neighbours_left = (ALONG_K ? k_left : across_left) - chunk * 8;
    const i64 count = line < lines_left ? min(max(neighbours_left, (i64)0), (i64)8) : 0;
    const T* source = count > 0 ? from + line * line_stride + chunk * 8 : from;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(part + place<ALONG_K>(line, chunk)), "l"(source),
                 "r"((u32)count * 2)
                 : "memory");
  }
}

// Loads four matrices of 8 x 8 for the instructions: those of 16 elements across k from `across` on, and of 16 along k.
// Of a, the second is the next across k; of b, the next along k.
template <bool ALONG_K, bool IS_A>
__device__ __forceinline__ void load(u32 part, u32 across, u32 k, u32 (&to)[4]) {
  const u32 lane = threadIdx.x % 32, second = (lane >> 3 & 1) * 8, third = (lane >> 4) * 8;
  const u32 at_across = across + (IS_A ? second : third), at_k = k + (IS_A ? third : second);
  if (ALONG_K)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(part + place<ALONG_K>(at_across + lane % 8, at_k / 8))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(part + place<ALONG_K>(at_k + lane % 8, at_across / 8))
                 : "memory");
}

template <bool A_ALONG_K, bool B_ALONG_K, typename T>
__device__ __forceinline__ void tensor_tiles(const T* a, const T* b, T* out, const Shape& shape) {
  __shared__ __align__(128) char stages[STAGES * STAGE_BYTES];
  const u32 base = (u32)__cvta_generic_to_shared(stages);
  const u32 lane = threadIdx.x % 32, warp_m = threadIdx.x / 32 % 2 * 64, warp_n = threadIdx.x / 64 * 64;
  const i64 a_line = A_ALONG_K ? shape.a_row : shape.a_column, b_line = B_ALONG_K ? shape.b_column : shape.b_row;

  const u64 across = (shape.n + TILE - 1) / TILE, down = (shape.m + TILE - 1) / TILE;
  const u64 blocks = across * down * shape.splits * shape.batches;
  for (u64 block = blockIdx.x; block < blocks; block += gridDim.x) {
    // Blocks that run at the same time have neighbouring tiles: eight rows of tiles, column by column.
    const u64 in_matrix = block % (across * down), first = in_matrix / (across * 8) * 8;
    const u64 rows = min(down - first, (u64)8), in_rows = in_matrix - first * across;
    const u64 top = (first + in_rows % rows) * TILE, left = in_rows / rows * TILE;
    const Part part = part_of(shape, block / (across * down));
    const T* a_from = a + part.a + (i64)top * shape.a_row + (i64)part.k_begin * shape.a_column;
    const T* b_from = b + part.b + (i64)part.k_begin * shape.b_row + (i64)left * shape.b_column;
    const i64 m_left = shape.m - top, n_left = shape.n - left;
    i64 k_left = part.k_end - part.k_begin;

    float sum[4][8][4] = {};
    i64 copied = 0;
    // One group of copies for each stage, also for those beyond the end.
    for (int stage = 0; stage < STAGES - 1; ++stage) {
      copy<A_ALONG_K>(base + stage * STAGE_BYTES, a_from + copied * shape.a_column, a_line, k_left - copied, m_left);
      copy<B_ALONG_K>(base + stage * STAGE_BYTES + PART_BYTES, b_from + copied * shape.b_row, b_line, k_left - copied, n_left);
      asm volatile("cp.async.commit_group;" ::: "memory");
      copied += STEP;
    }
    int stage = 0;
    for (; k_left > 0; k_left -= STEP) {
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
      // All have copied this stage, and have multiplied the one that is overwritten now.
      __syncthreads();
      const int next = (stage + STAGES - 1) % STAGES;
      const u32 to = base + next * STAGE_BYTES, from = base + stage * STAGE_BYTES;
      a_from += STEP * shape.a_column;
      b_from += STEP * shape.b_row;
      copy<A_ALONG_K>(to, a_from + (STAGES - 2) * STEP * shape.a_column, a_line, k_left - (STAGES - 1) * STEP, m_left);
      copy<B_ALONG_K>(to + PART_BYTES, b_from + (STAGES - 2) * STEP * shape.b_row, b_line, k_left - (STAGES - 1) * STEP, n_left);
      asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
      for (int k = 0; k < STEP; k += 16) {
        u32 a_own[4][4], b_own[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) load<A_ALONG_K, true>(from, warp_m + i * 16, k, a_own[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) load<B_ALONG_K, false>(from + PART_BYTES, warp_n + j * 16, k, b_own[j]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 8; ++j)
            multiply_add((T*)0, sum[i][j], a_own[i], b_own[j / 2][j % 2 * 2], b_own[j / 2][j % 2 * 2 + 1]);
      }
      stage = (stage + 1) % STAGES;
    }

    const u32 row = lane / 4, column = lane % 4 * 2;
    if (shape.splits > 1) {
      float* to = (float*)out + part.out + top * shape.n + left;
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const u32 y = warp_m + i * 16 + half * 8 + row, x = warp_n + j * 8 + column;
            if (y < m_left && x < n_left)
              *(float2*)(to + y * shape.n + x) = make_float2(sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
          }
      continue;
    }
    // Through shared memory, where every row is a line of chunks, so that a warp stores a whole row of the tile. Before,
    // no copy is under way and all have read the last stage.
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const u32 y = warp_m + i * 16 + half * 8 + row, x = warp_n + j * 8;
          *(u32*)(stages + place<false>(y, x / 8) + column * 2) =
              rounded((T*)0, sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
        }
    __syncthreads();
    // The code generator replaces this store of four elements, the only one in the PTX, by a function of them
    // (crates/region/src/emit/product.rs).
#pragma unroll 1
    for (u32 y = threadIdx.x / 32; y < TILE && y < m_left; y += TENSOR_THREADS / 32) {
      const u32 x = lane * 4;
      if (x < n_left)
        *(uint2*)(out + part.out + (top + y) * shape.n + left + x) =
            *(const uint2*)(stages + place<false>(y, x / 8) + x % 8 * 2);
    }
    // The next tile's copies overwrite what was read.
    __syncthreads();
  }
}

#define TENSOR_KERNEL(T, NAME, A_ALONG_K, B_ALONG_K)                                                              \
  extern "C" __global__ void __launch_bounds__(TENSOR_THREADS, 2)                                                 \
  NAME(const T* a, const T* b, T* out, const Shape shape) {                                                       \
    tensor_tiles<A_ALONG_K, B_ALONG_K>(a, b, out, shape);                                                         \
  }

#define TENSOR_KERNELS(T)                                                                                         \
  TENSOR_KERNEL(T, product_tensor_rows_columns, true, true)                                                       \
  TENSOR_KERNEL(T, product_tensor_rows_rows, true, false)                                                         \
  TENSOR_KERNEL(T, product_tensor_columns_columns, false, true)                                                   \
  TENSOR_KERNEL(T, product_tensor_columns_rows, false, false)
