// Matrix products of floats of 16 bits by tensor cores: out[z] = a[z] . b[z], with the sizes and strides of product.cuh.
//
// Of each factor, either the rows or the columns are contiguous: `A_ALONG_K` says whether neighbours of a are along k, and
// `B_ALONG_K` the same of b. Lines of neighbours begin at multiples of 16 bytes. n is a multiple of 4.
//
// A block has a tile of 128 x 128 elements, and each of its eight warps 64 x 32 of them. The next stages of k are copied
// to shared memory while one is multiplied. Beyond an edge, zeros are copied. What does not depend on the stage is
// worked out once: for short k, the instructions around the products would take longer than these.
//
// Rounding: the instructions `mma` add 16 products to the sum so far, in the order of k. How they round is up to the
// device; docs/measurements/2026-11-28-matrix-products.md says what GPUs of compute capability 9.0 do.
#include "product.cuh"

typedef unsigned int u32;

#define TILE 128
#define STEP 32
#define STAGES 3
#define TENSOR_THREADS 256
#define WARP_COLUMNS 32
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

// A factor's part of a stage has lines of neighbours: if these are along k, a line for each of the 128 elements across k,
// and else one for each of the 32 along k.
template <bool ALONG_K>
struct Lines {
  enum {
    BYTES = (ALONG_K ? STEP : TILE) * 2,
    CHUNKS = BYTES / CHUNK_BYTES,
    // The lines that all threads copy in one turn: a multiple of eight.
    TURN = TENSOR_THREADS / CHUNKS,
    TURNS = (ALONG_K ? TILE : STEP) / TURN
  };

  // Where a chunk of eight elements is. Chunks of eight lines that are read at once are in different banks; lines that are
  // eight apart have theirs in the same order.
  static __device__ __forceinline__ u32 place(u32 line, u32 chunk) {
    return line * BYTES + (chunk ^ (ALONG_K ? line >> 1 & 3 : line & 7)) * CHUNK_BYTES;
  }
};

// What a thread copies of each stage of a factor: a chunk of every TURN-th line.
template <bool ALONG_K, typename T>
struct Copier {
  typedef Lines<ALONG_K> L;
  const T* from;
  // The distance between its lines, and from a stage to the next.
  i64 turn, stage;
  // Where its first chunk is in a stage, the chunk's first neighbour and its line.
  u32 to;
  int neighbour, line;
  int across_left;

  __device__ __forceinline__ Copier(const T* tile, i64 along_k, i64 across, int across_left)
      : turn((ALONG_K ? across : along_k) * L::TURN), stage(along_k * STEP), neighbour(threadIdx.x % L::CHUNKS * 8),
        line(threadIdx.x / L::CHUNKS), across_left(across_left) {
    from = tile + line * (ALONG_K ? across : along_k) + neighbour;
    to = L::place(line, neighbour / 8);
  }

  // Begins to copy the next stage to `part`, which has `k_left` elements along k. Nothing is read beyond an edge, where
  // the source is `array` for tools that look at the address alone.
  __device__ __forceinline__ void copy(u32 part, int k_left, const T* array) {
    const int neighbours = (ALONG_K ? k_left : across_left) - neighbour, lines = (ALONG_K ? across_left : k_left) - line;
    const int bytes = min(max(neighbours, 0), 8) * 2;
#pragma unroll
    for (int turn = 0; turn < L::TURNS; ++turn) {
      const int size = turn * L::TURN < lines ? bytes : 0;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(part + to + turn * (L::TURN * L::BYTES)),
                   "l"(size > 0 ? from + turn * this->turn : array), "r"(size)
                   : "memory");
    }
    from += stage;
  }
};

// Where a thread's lines are of the matrices of 8 x 8 that a warp loads: those of 16 elements across k from the warp's
// first on, and of 16 along k. Of a, the second of four matrices is the next across k; of b, the next along k.
template <bool ALONG_K, bool IS_A, int COUNT>
struct Fragments {
  typedef Lines<ALONG_K> L;
  // For each step along k, or for each 16 elements across.
  u32 places[ALONG_K ? STEP / 16 : COUNT];

  __device__ __forceinline__ Fragments(u32 part, u32 first) {
    const u32 lane = threadIdx.x % 32, second = lane >> 3 & 1, third = lane >> 4;
    const u32 across = first + lane % 8 * ALONG_K + (IS_A ? second : third) * 8;
    const u32 k = lane % 8 * !ALONG_K + (IS_A ? third : second) * 8;
#pragma unroll
    for (int at = 0; at < (ALONG_K ? STEP / 16 : COUNT); ++at)
      places[at] = part + (ALONG_K ? L::place(across, k / 8 + at * 2) : L::place(k, across / 8 + at * 2));
  }

  // Loads the matrices of the 16 elements across from `number * 16` on.
  __device__ __forceinline__ void load(u32 stage, int step, int number, u32 (&to)[4]) const {
    if (ALONG_K)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(stage + places[step] + number * (16 * L::BYTES))
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(stage + places[number] + step * (16 * L::BYTES))
                   : "memory");
  }
};

template <bool A_ALONG_K, bool B_ALONG_K, typename T>
__device__ __forceinline__ void tensor_tiles(const T* a, const T* b, T* out, const Shape& shape) {
  __shared__ __align__(128) char stages[STAGES * STAGE_BYTES];
  const u32 base = (u32)__cvta_generic_to_shared(stages);
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 warp_m = warp % 2 * 64, warp_n = warp / 2 * WARP_COLUMNS;
  const Fragments<A_ALONG_K, true, 4> a_fragments(base, warp_m);
  const Fragments<B_ALONG_K, false, WARP_COLUMNS / 16> b_fragments(base + PART_BYTES, warp_n);

  // Memory has room for fewer tiles than 2^32.
  const u32 across = (u32)((shape.n + TILE - 1) / TILE), down = (u32)((shape.m + TILE - 1) / TILE);
  const u32 blocks = across * down * (u32)shape.splits * (u32)shape.batches;
  for (u32 block = blockIdx.x; block < blocks; block += gridDim.x) {
    // Blocks that run at the same time have neighbouring tiles: eight rows of tiles, column by column.
    const u32 in_matrix = block % (across * down), first = in_matrix / (across * 8) * 8;
    const u32 rows = min(down - first, 8u), in_rows = in_matrix - first * across;
    const u64 top = (u64)(first + in_rows % rows) * TILE, left = (u64)(in_rows / rows) * TILE;
    const Part part = part_of(shape, block / (across * down));
    const int m_left = (int)min(shape.m - top, (u64)TILE), n_left = (int)min(shape.n - left, (u64)TILE);
    const T* a_from = a + part.a + (i64)top * shape.a_row + (i64)part.k_begin * shape.a_column;
    const T* b_from = b + part.b + (i64)part.k_begin * shape.b_row + (i64)left * shape.b_column;
    Copier<A_ALONG_K, T> a_copier(a_from, shape.a_column, shape.a_row, m_left);
    Copier<B_ALONG_K, T> b_copier(b_from, shape.b_row, shape.b_column, n_left);
    // A product has fewer than 2^31 elements along k, or a split of it has.
    int k_left = (int)(part.k_end - part.k_begin);

    float sum[4][WARP_COLUMNS / 8][4] = {};
    // One group of copies for each stage, also for those beyond the end.
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
      a_copier.copy(base + stage * STAGE_BYTES, k_left - stage * STEP, a);
      b_copier.copy(base + stage * STAGE_BYTES + PART_BYTES, k_left - stage * STEP, b);
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
    u32 stage = 0, next = (STAGES - 1) * STAGE_BYTES;
    for (; k_left > 0; k_left -= STEP) {
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
      // All have copied this stage, and have multiplied the one that is overwritten now.
      __syncthreads();
      a_copier.copy(base + next, k_left - (STAGES - 1) * STEP, a);
      b_copier.copy(base + next + PART_BYTES, k_left - (STAGES - 1) * STEP, b);
      asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
      for (int step = 0; step < STEP / 16; ++step) {
        u32 a_own[4][4], b_own[WARP_COLUMNS / 16][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a_fragments.load(stage, step, i, a_own[i]);
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 16; ++j) b_fragments.load(stage, step, j, b_own[j]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < WARP_COLUMNS / 8; ++j)
            multiply_add((T*)0, sum[i][j], a_own[i], b_own[j / 2][j % 2 * 2], b_own[j / 2][j % 2 * 2 + 1]);
      }
      stage = stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
      next = next == (STAGES - 1) * STAGE_BYTES ? 0 : next + STAGE_BYTES;
    }

    // Those of stages beyond the end, too: the copies of a next tile would not be ordered behind them.
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    // A thread has pairs of neighbours of every eighth row, at every eighth column.
    const u32 row = lane / 4, column = lane % 4 * 2;
    if (shape.splits > 1) {
      float* to = (float*)out + part.out + (top + warp_m + row) * shape.n + left + warp_n + column;
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < WARP_COLUMNS / 8; ++j)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int y = i * 16 + half * 8, x = j * 8;
            if ((int)(warp_m + row) + y < m_left && (int)(warp_n + column) + x < n_left)
              *(float2*)(to + y * shape.n + x) = make_float2(sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
          }
      // The next tile's copies overwrite what others still read.
      __syncthreads();
      continue;
    }
    // Through shared memory, where every row is a line of chunks, so that a warp stores a whole row of the tile. Before,
    // all have read the last stage.
    __syncthreads();
    typedef Lines<false> Rows;
#pragma unroll
    for (int j = 0; j < WARP_COLUMNS / 8; ++j) {
      char* to = stages + (warp_m + row) * Rows::BYTES + ((warp_n / 8 + j) ^ row) * CHUNK_BYTES + column * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *(u32*)(to + (i * 16 + half * 8) * Rows::BYTES) =
              rounded((T*)0, sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
    }
    __syncthreads();
    // The code generator replaces this store of four elements, the only one in the PTX, by a function of them
    // (crates/region/src/emit/product.rs).
    const char* read = stages + warp * Rows::BYTES + (lane / 2 ^ warp) * CHUNK_BYTES + lane % 2 * 8;
    T* to = out + part.out + (top + warp) * shape.n + left + lane * 4;
    if ((int)lane * 4 < n_left) {
#pragma unroll 1
      for (int y = warp; y < m_left; y += TENSOR_THREADS / 32) {
        *(uint2*)to = *(const uint2*)read;
        read += TENSOR_THREADS / 32 * Rows::BYTES;
        to += TENSOR_THREADS / 32 * shape.n;
      }
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
