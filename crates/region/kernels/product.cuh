// Matrix products: out[z] = a[z] . b[z] for each z of a batch, with a of m x k and b of k x n elements.
//
// The strides of a and b are arbitrary numbers of elements, 0 and negative ones too; `out` is contiguous, row-major.
// All indices are 64 bits wide. A grid is one-dimensional, and its blocks go on to the work that is `gridDim.x` further
// on, so that no product needs more blocks than a grid may have.
//
// k can be split into ranges of `split_k`, which blocks of their own multiply: then `out` has `splits` matrices for each
// of the batch, and `sum` adds them up.
//
// Floats of 16 bits are multiplied and added as floats. The matrices of the splits are floats, too, so that a sum is
// rounded to 16 bits once.
//
// Rounding: an element is the sum of k products. Within a range of CHUNK of them, each is added by a fused
// multiply-add; the sums of the ranges are added up in turn. `columns` and `rows` do so for k distributed over threads,
// whose sums are added last. So each product goes through k roundings or, for larger k, through no more than
// CHUNK + ceil(k / CHUNK); the order is the same on every run and on every device.

typedef unsigned long long u64;
typedef long long i64;

// How many products are summed up before their sum is added to the total.
#define CHUNK 128
// Threads of a block.
#define THREADS 256
// The part of k that is in shared memory at a time.
#define TILE_K 16
// Warps of a block.
#define WARPS (THREADS / 32)

// Dimensions of the batch: what an array can have besides rows and columns.
#define BATCH_DIMS 4

struct Shape {
  u64 m, n, k;
  u64 splits, split_k;
  u64 batches;
  i64 a_offset, a_row, a_column;
  i64 b_offset, b_row, b_column;
  // Sizes of the batch's dimensions, outermost first, and the strides of a and b along them.
  u64 batch[BATCH_DIMS];
  i64 a_batch[BATCH_DIMS], b_batch[BATCH_DIMS];
};

// What one block works on: elements of `a` and `b` where their matrices begin, the range of k, and the matrix of `out`.
struct Part {
  i64 a, b;
  u64 k_begin, k_end;
  u64 out;
};

// The part of this number: the splits of the first matrix of the batch, then of the second, ... `Number` has 32 bits
// where all numbers fit in that; a division of 64 bits takes a hundred instructions.
template <typename Number>
__device__ __forceinline__ Part part_of(const Shape& shape, Number number) {
  Part part;
  Number split = 0, z = number;
  if (shape.splits > 1) {
    split = number % (Number)shape.splits;
    z = number / (Number)shape.splits;
  }
  part.out = (u64)number * shape.m * shape.n;
  part.k_begin = split * shape.split_k;
  part.k_end = min(shape.k, part.k_begin + shape.split_k);
  part.a = shape.a_offset;
  part.b = shape.b_offset;
#pragma unroll
  for (int d = BATCH_DIMS - 1; d > 0; --d) {
    if (shape.batch[d] > 1) {
      i64 index = z % (Number)shape.batch[d];
      z /= (Number)shape.batch[d];
      part.a += index * shape.a_batch[d];
      part.b += index * shape.b_batch[d];
    }
  }
  part.a += (i64)z * shape.a_batch[0];
  part.b += (i64)z * shape.b_batch[0];
  return part;
}

__device__ __forceinline__ float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
__device__ __forceinline__ double multiply_add(double x, double y, double z) { return fma(x, y, z); }
__device__ __forceinline__ unsigned multiply_add(unsigned x, unsigned y, unsigned z) { return x * y + z; }
__device__ __forceinline__ u64 multiply_add(u64 x, u64 y, u64 z) { return x * y + z; }

// An f16.
struct Half {
  unsigned short bits;
  __device__ __forceinline__ explicit Half(float number) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(number));
  }
  __device__ __forceinline__ operator float() const {
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
    return number;
  }
};

// A bf16, which compute capability 7.5 has no instructions for.
struct BHalf {
  unsigned short bits;
  __device__ __forceinline__ explicit BHalf(float number) {
    const unsigned whole = __float_as_uint(number);
    // Half a unit is added, less one bit if the upper half is even. The sum could carry a NaN to infinity.
    bits = number != number ? whole >> 16 | 64 : (whole + 0x7fff + (whole >> 16 & 1)) >> 16;
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};

// Stores a sum at this position of `out`, which has `splits` matrices for each of the batch.
//
// In the PTX, the code generator replaces the stores of elements by functions of these
// (crates/region/src/emit/product.rs). Every element must therefore be stored by an instruction of its own, and only
// stores of partial sums may have another type than T.
template <typename T, typename Sum>
__device__ __forceinline__ void store_sum(T* out, u64 splits, u64 at, Sum sum) {
  out[at] = (T)sum;
}
template <typename T>
__device__ __forceinline__ void store_half_sum(T* out, u64 splits, u64 at, float sum) {
  if (splits > 1)
    ((float*)out)[at] = sum;
  else
    out[at] = (T)sum;
}
__device__ __forceinline__ void store_sum(Half* out, u64 splits, u64 at, float sum) {
  store_half_sum(out, splits, at, sum);
}
__device__ __forceinline__ void store_sum(BHalf* out, u64 splits, u64 at, float sum) {
  store_half_sum(out, splits, at, sum);
}

__device__ __forceinline__ i64 magnitude(i64 stride) { return stride < 0 ? -stride : stride; }

// What a thread loads of the tiles of one operand: SIDE elements of each, so that neighbours go along the shorter stride.
// `across` is the operand's other dimension, that of the product: rows of a, columns of b.
template <typename T, int SIDE>
struct Loader {
  // Where the first of them is within a tile, and the distances to the next.
  int k, across, k_step, across_step;
  i64 stride_k, stride_across;

  __device__ __forceinline__ Loader(i64 stride_k, i64 stride_across)
      : stride_k(stride_k), stride_across(stride_across) {
    const int tile = 16 * SIDE;
    const bool along_k = magnitude(stride_k) < magnitude(stride_across);
    k = along_k ? threadIdx.x % TILE_K : threadIdx.x / tile;
    across = along_k ? threadIdx.x / TILE_K : threadIdx.x % tile;
    k_step = along_k ? 0 : THREADS / tile;
    across_step = along_k ? THREADS / TILE_K : 0;
  }

  // The elements of the tile at `tile`, of which those count that are within `k_left` and `across_left` of its corner.
  template <typename Sum>
  __device__ __forceinline__ void load(const T* tile, i64 k_left, i64 across_left, Sum (&elements)[SIDE]) const {
#pragma unroll
    for (int s = 0; s < SIDE; ++s) {
      const i64 at_k = k + s * k_step, at_across = across + s * across_step;
      const bool there = at_k < k_left && at_across < across_left;
      elements[s] = there ? (Sum)tile[at_k * stride_k + at_across * stride_across] : (Sum)0;
    }
  }

  template <typename Sum, int PITCH>
  __device__ __forceinline__ void store(Sum (&tile)[TILE_K][PITCH], const Sum (&elements)[SIDE]) const {
#pragma unroll
    for (int s = 0; s < SIDE; ++s) tile[k + s * k_step][across + s * across_step] = elements[s];
  }
};

// Tiles of 16 * SIDE rows and as many columns; each thread has SIDE x SIDE elements of its tile.
template <typename T, typename Sum, int SIDE>
__device__ __forceinline__ void tiles(const T* a, const T* b, T* out, const Shape& shape) {
  const int TILE = 16 * SIDE;
  // Padded, so that neighbours along k are in different banks.
  const int PITCH = TILE + 4;
  __shared__ __align__(16) Sum a_tile[TILE_K][PITCH];
  __shared__ __align__(16) Sum b_tile[TILE_K][PITCH];
  const Loader<T, SIDE> a_loader(shape.a_column, shape.a_row), b_loader(shape.b_row, shape.b_column);
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;

  const u64 across = (shape.n + TILE - 1) / TILE, down = (shape.m + TILE - 1) / TILE;
  const u64 blocks = across * down * shape.splits * shape.batches;
  for (u64 block = blockIdx.x; block < blocks; block += gridDim.x) {
    const u64 left = block % across * TILE, top = block / across % down * TILE;
    const Part part = part_of(shape, block / across / down);
    const T* a_from = a + part.a + (i64)top * shape.a_row + (i64)part.k_begin * shape.a_column;
    const T* b_from = b + part.b + (i64)part.k_begin * shape.b_row + (i64)left * shape.b_column;
    const i64 m_left = shape.m - top, n_left = shape.n - left;
    i64 k_left = part.k_end - part.k_begin;
    // Loaded ahead, while the tile before is multiplied. Beyond an edge there are zeros.
    Sum a_next[SIDE], b_next[SIDE];
    a_loader.load(a_from, k_left, m_left, a_next);
    b_loader.load(b_from, k_left, n_left, b_next);
    Sum total[SIDE][SIDE] = {};
    while (k_left > 0) {
      Sum sum[SIDE][SIDE] = {};
      for (int of_chunk = 0; of_chunk < CHUNK && k_left > 0; of_chunk += TILE_K) {
        __syncthreads();
        a_loader.store(a_tile, a_next);
        b_loader.store(b_tile, b_next);
        __syncthreads();
        a_from += TILE_K * shape.a_column;
        b_from += TILE_K * shape.b_row;
        k_left -= TILE_K;
        a_loader.load(a_from, k_left, m_left, a_next);
        b_loader.load(b_from, k_left, n_left, b_next);
#pragma unroll
        for (int k = 0; k < TILE_K; ++k) {
          Sum a_own[SIDE], b_own[SIDE];
#pragma unroll
          for (int s = 0; s < SIDE; ++s) {
            a_own[s] = a_tile[k][y * SIDE + s];
            b_own[s] = b_tile[k][x * SIDE + s];
          }
#pragma unroll
          for (int i = 0; i < SIDE; ++i)
#pragma unroll
            for (int j = 0; j < SIDE; ++j) sum[i][j] = multiply_add(a_own[i], b_own[j], sum[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < SIDE; ++i)
#pragma unroll
        for (int j = 0; j < SIDE; ++j) total[i][j] += sum[i][j];
    }
    const u64 to = part.out + top * shape.n + left;
#pragma unroll
    for (int i = 0; i < SIDE; ++i)
#pragma unroll
      for (int j = 0; j < SIDE; ++j)
        if (y * SIDE + i < m_left && x * SIDE + j < n_left)
          store_sum(out, shape.splits, to + (y * SIDE + i) * shape.n + x * SIDE + j, total[i][j]);
  }
}

// The sum of `count` products of elements that are `a_step` and `b_step` apart.
template <typename T, typename Sum>
__device__ __forceinline__ Sum dot(const T* a, i64 a_step, const T* b, i64 b_step, u64 count) {
  Sum total = 0;
  while (count > 0) {
    const u64 chunk = min(count, (u64)CHUNK);
    Sum sum = 0;
#pragma unroll 8
    for (unsigned at = 0; at < (unsigned)chunk; ++at) {
      sum = multiply_add((Sum)*a, (Sum)*b, sum);
      a += a_step;
      b += b_step;
    }
    total += sum;
    count -= chunk;
  }
  return total;
}

// How many of the numbers from `begin` on, `step` apart, are below `end`.
__device__ __forceinline__ u64 count_of(u64 begin, u64 end, unsigned step) {
  return begin < end ? (end - begin + step - 1) / step : 0;
}

// A matrix and a vector, n = 1: each warp has a row, or a split of one, whose elements are near each other.
template <typename T, typename Sum>
__device__ __forceinline__ void rows(const T* a, const T* b, T* out, const Shape& shape) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // How many rows a block has: where there are fewer than warps, it has several splits of each.
  const unsigned own = shape.m >= 8 ? 8 : shape.m >= 4 ? 4 : shape.m >= 2 ? 2 : 1;
  const u64 down = (shape.m + own - 1) / own, parts = shape.splits * shape.batches;
  const u64 blocks = down * ((parts + WARPS / own - 1) / (WARPS / own));
  for (u64 block = blockIdx.x; block < blocks; block += gridDim.x) {
    const u64 row = block % down * own + warp % own, number = block / down * (WARPS / own) + warp / own;
    if (row >= shape.m || number >= parts) continue;
    const Part part = part_of(shape, number);
    const u64 from = part.k_begin + lane;
    Sum sum = dot<T, Sum>(a + part.a + (i64)row * shape.a_row + (i64)from * shape.a_column, 32 * shape.a_column,
                          b + part.b + (i64)from * shape.b_row, 32 * shape.b_row, count_of(from, part.k_end, 32));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0) store_sum(out, shape.splits, part.out + row, sum);
  }
}

// The same for a matrix whose columns' elements are near each other, or whose rows are short: neighbouring threads have
// neighbouring rows, and SPREAD of a block's threads share one, each with every SPREAD-th of its elements.
template <typename T, typename Sum, int SPREAD>
__device__ __forceinline__ void columns(const T* a, const T* b, T* out, const Shape& shape) {
  const unsigned ROWS = THREADS / SPREAD;
  __shared__ Sum sums[SPREAD][ROWS];
  const unsigned own = threadIdx.x % ROWS, share = threadIdx.x / ROWS;
  const u64 down = (shape.m + ROWS - 1) / ROWS;
  const u64 blocks = down * shape.splits * shape.batches;
  for (u64 block = blockIdx.x; block < blocks; block += gridDim.x) {
    const u64 row = block % down * ROWS + own;
    const Part part = part_of(shape, block / down);
    const u64 from = part.k_begin + share;
    Sum total = 0;
    if (row < shape.m)
      total = dot<T, Sum>(a + part.a + (i64)row * shape.a_row + (i64)from * shape.a_column, SPREAD * shape.a_column,
                          b + part.b + (i64)from * shape.b_row, SPREAD * shape.b_row,
                          count_of(from, part.k_end, SPREAD));
    if (SPREAD > 1) {
      __syncthreads();
      sums[share][own] = total;
      __syncthreads();
#pragma unroll
      for (int other = 1; other < SPREAD; ++other) total += sums[other][own];
    }
    if (share == 0 && row < shape.m) store_sum(out, shape.splits, part.out + row, total);
  }
}

// Adds up `splits` runs of `length` elements for each of `batches`; `lanes` threads, 1 or 32, share an element.
template <typename T, typename Part, typename Sum>
__device__ __forceinline__ void sum(const Part* parts, T* out, u64 batches, u64 splits, u64 length, u64 lanes) {
  const u64 thread = (u64)blockIdx.x * THREADS + threadIdx.x, step = (u64)gridDim.x * THREADS / lanes;
  const u64 lane = thread % lanes;
  for (u64 at = thread / lanes; at < batches * length; at += step) {
    const Part* from = parts + at / length * splits * length + at % length;
    Sum total = 0;
#pragma unroll 8
    for (u64 split = lane; split < splits; split += lanes) total += (Sum)from[split * length];
    // All 32 of a warp are here: they share the element.
    for (int distance = (int)lanes / 2; distance > 0; distance /= 2)
      total += __shfl_down_sync(0xffffffffu, total, distance);
    if (lane == 0) out[at] = (T)total;
  }
}

// The kernels for elements of type T, whose products are summed up as Sum. The matrices of splits have elements of type
// Part.
#define KERNELS(T, Part, Sum)                                                                                     \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                           \
  product_wide_tiles(const T* a, const T* b, T* out, const Shape shape) {                                         \
    tiles<T, Sum, 4>(a, b, out, shape);                                                                           \
  }                                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                           \
  product_tiles(const T* a, const T* b, T* out, const Shape shape) {                                              \
    tiles<T, Sum, 1>(a, b, out, shape);                                                                           \
  }                                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                           \
  product_rows(const T* a, const T* b, T* out, const Shape shape) {                                               \
    rows<T, Sum>(a, b, out, shape);                                                                               \
  }                                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                           \
  product_columns(const T* a, const T* b, T* out, const Shape shape) {                                            \
    columns<T, Sum, WARPS>(a, b, out, shape);                                                                     \
  }                                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                           \
  product_short_rows(const T* a, const T* b, T* out, const Shape shape) {                                         \
    columns<T, Sum, 1>(a, b, out, shape);                                                                         \
  }                                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                           \
  product_sum(const Part* parts, T* out, u64 batches, u64 splits, u64 length, u64 lanes) {                        \
    sum<T, Part, Sum>(parts, out, batches, splits, length, lanes);                                                \
  }
