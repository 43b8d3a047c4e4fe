// nvrtc:
// The kernels of the photos example: brightness, a separable Gaussian blur, Sobel edges, and a histogram.
//
// Everything is integer arithmetic, or a square root that IEEE 754 rounds to one answer, so that a GPU, the simulated
// device and the plain Rust of examples/photos/cpu.rs produce the same bytes.
//
// Pictures are row-major, `w` pixels wide and `h` pixels high, without padding between the rows. Indices are 64 bits wide,
// because `w * h` may exceed 2^31. Pixels outside a picture are those of its nearest edge (clamping).
//
// blur_rows, blur_columns and sobel expect blocks of TILE_W x TILE_H threads, each block one tile of the picture.
// The grid is `ceil(w / TILE_W)` blocks wide; vertically a block goes on to the tiles `gridDim.y` further down, so that
// a picture of more than 65,535 rows of tiles needs no more blocks than a grid may have.
//
// The loops that load a tile make two or three turns at most: unrolling them would only make the PTX longer.

#define TILE_W 32
#define TILE_H 8
#define RADIUS 4

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

// A Gaussian of standard deviation 1.25 in 1/256ths: what the two pixels `distance` steps away from the middle weigh.
// 82 + 2 * (59 + 22 + 5 + 1) == 256.
__device__ __forceinline__ u32 weight(int distance) {
  return distance == 0 ? 82 : distance == 1 ? 59 : distance == 2 ? 22 : distance == 3 ? 5 : 1;
}

__device__ __forceinline__ i64 clamped(i64 at, i64 length) {
  return at < 0 ? 0 : at >= length ? length - 1 : at;
}

// The brightness of `n` pixels of three bytes (red, green, blue): the Rec. 709 weights in 1/65536ths, which sum to 65536,
// rounded to the nearest integer, halves up. One thread a pixel, on a one-dimensional grid.
extern "C" __global__ void luminance(const u8* __restrict__ rgb, u8* __restrict__ luma, int n) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const u32 r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
  luma[i] = (u8)((13933u * r + 46871u * g + 4732u * b + 32768u) >> 16);
}

// The horizontal half of the blur. The sums stay unrounded: 256ths of a brightness, at most 255 * 256.
extern "C" __global__ void blur_rows(const u8* __restrict__ in, u16* __restrict__ out, int w, int h) {
  __shared__ u8 tile[TILE_H][TILE_W + 2 * RADIUS];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const i64 left = (i64)blockIdx.x * TILE_W, x = left + tx;
  for (i64 top = (i64)blockIdx.y * TILE_H; top < h; top += (i64)gridDim.y * TILE_H) {
    const i64 y = top + ty, row = clamped(y, h) * w;
    #pragma unroll 1
    for (int i = tx; i < TILE_W + 2 * RADIUS; i += TILE_W) tile[ty][i] = in[row + clamped(left + i - RADIUS, w)];
    __syncthreads();
    if (x < w && y < h) {
      const u8* middle = &tile[ty][tx + RADIUS];
      u32 sum = weight(0) * middle[0];
      #pragma unroll
      for (int k = 1; k <= RADIUS; k++) sum += weight(k) * (middle[-k] + middle[k]);
      out[row + x] = (u16)sum;
    }
    __syncthreads();  // The next tile must not be loaded over one that is still being read.
  }
}

// The vertical half of the blur: 65536ths of a brightness, rounded once to the nearest integer, halves up.
extern "C" __global__ void blur_columns(const u16* __restrict__ in, u8* __restrict__ out, int w, int h) {
  __shared__ u16 tile[TILE_H + 2 * RADIUS][TILE_W];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const i64 x = (i64)blockIdx.x * TILE_W + tx, column = clamped(x, w);
  for (i64 top = (i64)blockIdx.y * TILE_H; top < h; top += (i64)gridDim.y * TILE_H) {
    const i64 y = top + ty;
    #pragma unroll 1
    for (int i = ty; i < TILE_H + 2 * RADIUS; i += TILE_H) tile[i][tx] = in[clamped(top + i - RADIUS, h) * w + column];
    __syncthreads();
    if (x < w && y < h) {
      u32 sum = weight(0) * tile[ty + RADIUS][tx];
      #pragma unroll
      for (int k = 1; k <= RADIUS; k++) sum += weight(k) * (tile[ty + RADIUS - k][tx] + tile[ty + RADIUS + k][tx]);
      out[y * w + x] = (u8)((sum + 32768u) >> 16);
    }
    __syncthreads();  // The next tile must not be loaded over one that is still being read.
  }
}

// The length of the Sobel gradient, rounded down and at most 255: white edges on black. The sum of the squares is below 2^24
// and therefore exact as a float, and the correctly rounded root of such a number never reaches the next integer.
extern "C" __global__ void sobel(const u8* __restrict__ in, u8* __restrict__ edges, int w, int h) {
  __shared__ u8 tile[TILE_H + 2][TILE_W + 2];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const i64 left = (i64)blockIdx.x * TILE_W, x = left + tx;
  for (i64 top = (i64)blockIdx.y * TILE_H; top < h; top += (i64)gridDim.y * TILE_H) {
    const i64 y = top + ty;
    #pragma unroll 1
    for (int i = ty; i < TILE_H + 2; i += TILE_H) {
      const i64 row = clamped(top + i - 1, h) * w;
      #pragma unroll 1
      for (int j = tx; j < TILE_W + 2; j += TILE_W) tile[i][j] = in[row + clamped(left + j - 1, w)];
    }
    __syncthreads();
    if (x < w && y < h) {
      const u8 *above = &tile[ty][tx], *level = &tile[ty + 1][tx], *below = &tile[ty + 2][tx];
      const int gx = (above[2] + 2 * level[2] + below[2]) - (above[0] + 2 * level[0] + below[0]);
      const int gy = (below[0] + 2 * below[1] + below[2]) - (above[0] + 2 * above[1] + above[2]);
      const int length = (int)__fsqrt_rn((float)(gx * gx + gy * gy));
      edges[y * w + x] = (u8)(length > 255 ? 255 : length);
    }
    __syncthreads();  // The next tile must not be loaded over one that is still being read.
  }
}

// Adds, for each of the 256 values, how many of `n` bytes have it to `bins`, which the caller has set to zero.
// Any one-dimensional grid and block: each block counts in shared memory what its threads stride over, then adds that up.
extern "C" __global__ void histogram256(const u8* __restrict__ in, u32* __restrict__ bins, int n) {
  __shared__ u32 counts[256];
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) counts[bin] = 0;
  __syncthreads();
  const i64 stride = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&counts[in[i]], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
    if (counts[bin] != 0) atomicAdd(&bins[bin], counts[bin]);
}
