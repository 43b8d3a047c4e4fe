// Sorts, positions in sorted order, the first elements in sorted order, and searches, of rows of unsigned words.
//
// A word of an element has a key of as many bits, which orders it: `Format` turns floats and signed integers into keys.
// -0 has the key of +0, and all NaN have the greatest. The words themselves are moved, so that zeros and NaN keep their
// bits. Elements with equal keys stay in the order of their positions.
//
// Long rows are sorted digit by digit, the lowest 8 bits first. `histogram` counts the digits of all passes. A block of
// `pass` takes the next tile from a counter, counts its digits, publishes the counts, ranks its elements, and adds up the
// counts of the tiles before its own, until one has published the sum up to itself (decoupled look-back: Merrill and
// Garland 2016; Adinets and Merrill 2022). A count and its state are one word, so relaxed accesses are enough. All words
// of a pass end as sums, so that the next pass takes sums of the last for words that are not written yet.
//
// Short rows are sorted in shared memory, several by one block. `select` finds the first elements of a row by an upper
// bound of the last of them, and sorts those that are within the bound.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

#define BINS 256
#define FULL 0xffffffffu
// Words in front of the histograms: a counter of tiles for each pass.
#define HEADER 32

// How words become keys.
struct Format {
  // The word that is taken for 0: -0, or 0 itself.
  u64 zero;
  // The bits of negative words to invert, and the bits of all to invert.
  u64 flip, sign;
  // The greatest magnitude that is no NaN, and the bits of a magnitude.
  u64 infinity, magnitude;
  // The bits to invert for descending order.
  u64 descending;
};

struct Plan {
  Format format;
  // Rows, elements of each, and elements of a row that are stored.
  u64 rows, length, stored;
  // Where the arrays of words and of positions are in the temporary memory, in bytes.
  u64 words[2], positions[2];
  // Parts of a row, each of `portion` elements, and candidates of a row (`select`).
  u64 parts, portion, candidates;
  // The pass, and the number of passes.
  u32 pass, passes;
  // Whether positions are stored in place of words, and whether a search counts equal elements.
  u32 gives_positions, counts_equal;
};

template <typename K> struct Wide { typedef u32 Type; typedef int Signed; };
template <> struct Wide<u64> { typedef u64 Type; typedef i64 Signed; };

template <typename K>
__device__ __forceinline__ typename Wide<K>::Type key_of(K word, const Format& format) {
  typedef typename Wide<K>::Type W;
  typedef typename Wide<K>::Signed S;
  const W all = (W)(K)~(K)0;
  W value = word == (K)format.zero ? (W)0 : (W)word;
  // The sign bit of all bits.
  W negative = (W)((S)(value << (8 * (sizeof(W) - sizeof(K)))) >> (8 * sizeof(W) - 1));
  W key = value ^ ((negative & (W)format.flip) | (W)format.sign);
  if ((value & (W)format.magnitude) > (W)format.infinity) key = all;
  return key ^ (W)format.descending;
}

template <typename K>
__device__ __forceinline__ u32 digit_of(K word, const Format& format, u32 shift) {
  return (u32)(key_of(word, format) >> shift) & (BINS - 1);
}

// Calls `use` with words, as `load` returns them, and their numbers, N of a thread after their loads.
template <int N, typename Load, typename Use>
__device__ __forceinline__ void for_each(u32 count, Load load, Use use) {
  u32 at = threadIdx.x, step = blockDim.x;
  for (; at + (N - 1) * step < count; at += N * step) {
    decltype(load(0)) words[N];
#pragma unroll
    for (u32 i = 0; i < N; ++i) words[i] = load(at + i * step);
#pragma unroll
    for (u32 i = 0; i < N; ++i) use(words[i], at + i * step);
  }
#pragma unroll 1
  for (; at < count; at += step) use(load(at), at);
}

// The histograms of all digits, for rows in portions.
template <typename K>
__device__ __forceinline__ void histogram(const K* source, u32* counts, const Plan& plan) {
  const u32 PASSES = sizeof(K);
  __shared__ u32 bins[sizeof(K)][BINS];
  for (u32 at = threadIdx.x; at < PASSES * BINS; at += blockDim.x) (&bins[0][0])[at] = 0;
  __syncthreads();
  u64 row = blockIdx.x / plan.parts, begin = blockIdx.x % plan.parts * plan.portion;
  const K* from = source + row * plan.length + begin;
  u32 count = (u32)min(plan.portion, plan.length - begin);
  for_each<8>(count, [&](u32 at) { return from[at]; }, [&](K word, u32) {
    auto key = key_of(word, plan.format);
#pragma unroll
    for (u32 pass = 0; pass < PASSES; ++pass) atomicAdd(&bins[pass][(u32)(key >> (8 * pass)) & (BINS - 1)], 1u);
  });
  __syncthreads();
  counts += row * PASSES * BINS;
  for (u32 at = threadIdx.x; at < PASSES * BINS; at += blockDim.x) {
    u32 bin = (&bins[0][0])[at];
    if (bin) atomicAdd(&counts[at], bin);
  }
}

// The sum of the values of the threads before this one, of the first BINS threads. All threads of the block call it.
__device__ __forceinline__ u32 sum_before(u32 value, u32* warp_sums) {
  u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = value;
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) {
    u32 other = __shfl_up_sync(FULL, sum, distance);
    if (lane >= distance) sum += other;
  }
  __syncthreads();
  if (lane == 31 && warp < BINS / 32) warp_sums[warp] = sum;
  __syncthreads();
#pragma unroll
  for (u32 other = 0; other < BINS / 32; ++other)
    if (other < warp) sum += warp_sums[other];
  return sum - value;
}

__device__ __forceinline__ u32 load_relaxed(const u32* address) {
  u32 word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
  return word;
}

__device__ __forceinline__ void store_relaxed(u32* address, u32 word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(word) : "memory");
}

// One pass over a digit. In `words`: counters of tiles, for each pass; the histograms; the published counts.
template <typename K, bool PAIRS, int THREADS, int ITEMS>
__device__ __forceinline__ void pass(const K* source, u8* out, u8* temporary, u32* words, const Plan& plan) {
  const u32 WARPS = THREADS / 32, TILE = THREADS * ITEMS;
  const u32 EXCHANGED = TILE * (PAIRS && sizeof(K) < 4 ? 4 : sizeof(K)), RANKED = 2 * WARPS * BINS * 4;
  __shared__ __align__(16) u8 memory[EXCHANGED > RANKED ? EXCHANGED : RANKED];
  __shared__ u32 offsets[BINS], warp_sums[BINS / 32], next_tile;
  u32(*counts)[BINS] = (u32(*)[BINS])memory;
  u32(*masks)[BINS] = counts + WARPS;
  u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  u32 tiles = (u32)plan.parts, shift = 8 * plan.pass;
  bool is_first = plan.pass == 0, is_last = plan.pass + 1 == plan.passes;

  if (thread == 0) next_tile = atomicAdd(&words[plan.pass], 1u);
  for (u32 at = thread; at < 2 * WARPS * BINS; at += THREADS) (&counts[0][0])[at] = 0;
  __syncthreads();
  u32 number = next_tile;
  u64 row = plan.rows == 1 ? 0 : number / tiles;
  u32 tile = number - (u32)row * tiles;
  u64 begin = (u64)tile * TILE, left = plan.length - begin, base = row * plan.length;
  u32 valid = left < TILE ? (u32)left : TILE;

  // Words alternate between the temporary memory and `out` if they are the result, so that the last pass writes `out`.
  u32 from = (plan.pass + 1) & 1, to = plan.pass & 1;
  bool from_out = !PAIRS && ((plan.passes - plan.pass) & 1) == 0;
  const K* read = is_first ? source : (const K*)(!PAIRS && from_out ? out : temporary + plan.words[from]);
  K* write = (K*)(!PAIRS && !from_out ? out : temporary + plan.words[to]);
  read += base + begin;
  write += base;

  u32 first = warp * 32 * ITEMS + lane;
  K items[ITEMS];
  if (valid == TILE) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) items[i] = read[first + i * 32];
  } else {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) items[i] = first + i * 32 < valid ? read[first + i * 32] : (K)0;
  }
  // Elements beyond the end have the last digit, and are behind all others with it.
  auto digit = [&](int i) {
    return first + i * 32 < valid ? digit_of(items[i], plan.format, shift) : BINS - 1;
  };
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) atomicAdd(&counts[warp][digit(i)], 1u);
  __syncthreads();

  // Thread b has the counts of digit b.
  u32* published = words + HEADER + plan.rows * plan.passes * BINS + (u64)number * BINS + thread;
  u32 invalid = (plan.pass & 1) << 1, total = 0, before = 0, of_row = 0;
  if (thread < BINS) {
#pragma unroll
    for (u32 w = 0; w < WARPS; ++w) {
      u32 count = counts[w][thread];
      counts[w][thread] = total;
      total += count;
    }
    if (tile == 0) of_row = words[HEADER + (row * plan.passes + plan.pass) * BINS + thread];
    else store_relaxed(published, total | (invalid | 1) << 30);
  }
  if (tile == 0) {
    before = sum_before(of_row, warp_sums);
    if (thread < BINS) store_relaxed(published, (before + total) | (invalid ^ 2) << 30);
  }
  u32 start = sum_before(total, warp_sums);
  if (thread < BINS) {
#pragma unroll
    for (u32 w = 0; w < WARPS; ++w) counts[w][thread] += start;
  }
  __syncthreads();

  // The lanes with the same digit as this one are found by a mask for each digit in shared memory.
  u32 ranks[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    u32 bin = digit(i), rank = 0;
    atomicOr(&masks[warp][bin], 1u << lane);
    __syncwarp();
    u32 same = masks[warp][bin];
    u32 leader = 31 - __clz(same);
    if (lane == leader) rank = counts[warp][bin];
    __syncwarp();
    if (lane == leader) {
      counts[warp][bin] = rank + __popc(same);
      masks[warp][bin] = 0;
    }
    rank = __shfl_sync(FULL, rank, leader);
    ranks[i] = rank + __popc(same & ((1u << lane) - 1));
    __syncwarp();
  }
  __syncthreads();

  K* exchanged = (K*)memory;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) exchanged[ranks[i]] = items[i];
  u32 places[ITEMS];
  if (PAIRS) {
    const u32* positions = (const u32*)(temporary + plan.positions[from]) + base + begin;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      u32 at = first + i * 32;
      places[i] = is_first ? (u32)begin + at : at < valid ? positions[at] : 0;
    }
  }
  if (thread < BINS) {
    if (tile > 0) {
      const u32* other = published - BINS;
      for (u32 word; true;) {
        word = load_relaxed(other);
        if (word >> 30 == invalid) continue;
        before += word & 0x3fffffffu;
        if (word >> 30 == (invalid ^ 2)) break;
        other -= BINS;
      }
      store_relaxed(published, (before + total) | (invalid ^ 2) << 30);
    }
    offsets[thread] = before - start;
  }
  __syncthreads();

  u32 targets[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    u32 at = thread + i * THREADS;
    K word = exchanged[at];
    targets[i] = offsets[digit_of(word, plan.format, shift)] + at;
    if (at < valid && !(PAIRS && is_last)) write[targets[i]] = word;
  }
  if (!PAIRS) return;
  u32* exchanged_positions = (u32*)memory;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) exchanged_positions[ranks[i]] = places[i];
  __syncthreads();
  u32* positions = (u32*)(temporary + plan.positions[to]) + base;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    u32 at = thread + i * THREADS;
    if (at >= valid) continue;
    if (is_last) ((i64*)out)[base + targets[i]] = exchanged_positions[at];
    else positions[targets[i]] = exchanged_positions[at];
  }
}

// Sorts rows of `padded` slots, a power of two, of the `slots` in shared memory, by keys and then by positions.
template <typename W, typename P>
__device__ __forceinline__ void bitonic(W* keys, P* positions, u32 slots, u32 padded) {
  __syncthreads();
  for (u32 size = 2; size <= padded; size *= 2) {
    for (u32 stride = size / 2; stride > 0; stride /= 2) {
      for (u32 pair = threadIdx.x; pair < slots / 2; pair += blockDim.x) {
        u32 one = 2 * pair - (pair & (stride - 1)), two = one + stride;
        W key = keys[one], other = keys[two];
        P position = positions[one], other_position = positions[two];
        bool is_ascending = ((one & (padded - 1)) & size) == 0;
        bool is_greater = key > other || (key == other && position > other_position);
        if (is_greater == is_ascending) {
          keys[one] = other, keys[two] = key;
          positions[one] = other_position, positions[two] = position;
        }
      }
      // Up to a stride of 32, the 64 slots of a warp are only its own.
      u32 next = stride > 1 ? stride / 2 : size;
      if (stride <= 32 && next <= 32 && !(stride == 1 && size == padded)) __syncwarp();
      else __syncthreads();
    }
  }
}

// Sorts short rows, several in a block.
template <typename K, int SLOTS>
__device__ __forceinline__ void rows(const K* source, u8* out, const Plan& plan) {
  typedef typename Wide<K>::Type W;
  __shared__ W keys[SLOTS];
  __shared__ u16 positions[SLOTS];
  u32 length = (u32)plan.length, stored = (u32)plan.stored, padded = (u32)plan.portion;
  u32 of_block = SLOTS / padded;
  u64 row = (u64)blockIdx.x * of_block;
  u32 here = (u32)min((u64)of_block, plan.rows - row);
  source += row * length;
  for (u32 at = threadIdx.x; at < SLOTS; at += blockDim.x) {
    u32 position = at & (padded - 1), of = at / padded;
    bool is_element = position < length && of < here;
    keys[at] = is_element ? key_of(source[of * length + position], plan.format) : ~(W)0;
    positions[at] = position;
  }
  bitonic(keys, positions, SLOTS, padded);
  for (u32 at = threadIdx.x; at < here * stored; at += blockDim.x) {
    u32 of = at / stored, position = positions[of * padded + at % stored];
    if (plan.gives_positions) ((i64*)out)[row * stored + at] = position;
    else ((K*)out)[row * stored + at] = source[of * length + position];
  }
}

// The most candidates that `select` sorts, and the most elements that it selects by a bound.
#define CANDIDATES 1024
#define BOUNDED 256

// Stores the positions of the first `stored` elements of a part of a row. If there are several parts, the results are
// candidates, from which a second launch selects: it is `INDIRECT`.
template <typename K, bool INDIRECT, int THREADS>
__device__ __forceinline__ void select(const K* source, u8* out, u8* temporary, const Plan& plan) {
  typedef typename Wide<K>::Type W;
  __shared__ W keys[CANDIDATES];
  __shared__ u32 positions[CANDIDATES];
  __shared__ u32 bins[BINS], warp_sums[BINS / 32], found, chosen, needed;
  const int BATCH = INDIRECT ? 1 : 8;
  u32 thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  u64 row = blockIdx.x / plan.parts;
  u32 begin = (u32)(blockIdx.x % plan.parts * plan.portion);
  u32* candidates = (u32*)temporary + (INDIRECT ? row * plan.candidates : blockIdx.x * plan.stored);
  u32 count = (u32)min(plan.portion, (INDIRECT ? plan.candidates : plan.length) - begin);
  u32 wanted = (u32)min((u64)count, plan.stored), sorted = 0;
  source += row * plan.length + begin;
  auto load = [&](u32 at) -> K {
    if (!INDIRECT) return source[at];
    return candidates[at] == FULL ? (K)0 : source[candidates[at]];
  };
  // Candidates that are missing come last.
  auto key_at = [&](K word, u32 at) -> W {
    return INDIRECT && candidates[at] == FULL ? ~(W)0 : key_of(word, plan.format);
  };
  auto append = [&](u32 slot, W key, u32 at) {
    if (slot < CANDIDATES) keys[slot] = key, positions[slot] = at;
  };

  if (plan.stored <= BOUNDED) {
    // The greatest of the least keys of as many groups of elements as are wanted is a bound: first of a part of the
    // elements, then of all.
    u32 groups = 64;
    while (groups < 2 * plan.stored && groups < THREADS) groups *= 2;
    u64 sample = max((u64)count * plan.stored / 128, (u64)4096);
    for (u32 limit = (u32)min(sample, (u64)count); true; limit = count) {
      W least = ~(W)0;
      for_each<BATCH>(limit, load, [&](K word, u32 at) { least = min(least, key_at(word, at)); });
      for (u32 distance = THREADS / groups / 2; distance > 0; distance /= 2)
        least = min(least, __shfl_xor_sync(FULL, least, distance));
      u32 lanes = THREADS / groups;
      if (thread % lanes == 0) keys[thread / lanes] = least, positions[thread / lanes] = thread;
      if (thread == 0) found = 0;
      bitonic(keys, positions, groups, groups);
      W bound = keys[plan.stored - 1];
      __syncthreads();
      for_each<BATCH>(count, load, [&](K word, u32 at) {
        W key = key_at(word, at);
        if (key <= bound) append(atomicAdd(&found, 1u), key, at);
      });
      __syncthreads();
      sorted = found;
      __syncthreads();
      if (sorted <= CANDIDATES || limit == count) break;
    }
  }
  if (plan.stored > BOUNDED || sorted > CANDIDATES) {
    // The key of the last element that is wanted, digit by digit, and how many of its equals are wanted.
    W known = 0, last = 0;
    if (thread == 0) needed = wanted;
    for (int shift = 8 * sizeof(K) - 8; shift >= 0; shift -= 8) {
      if (thread < BINS) bins[thread] = 0;
      __syncthreads();
      for_each<BATCH>(count, load, [&](K word, u32 at) {
        W key = key_at(word, at);
        if ((key & known) == last) atomicAdd(&bins[(u32)(key >> shift) & (BINS - 1)], 1u);
      });
      __syncthreads();
      u32 here = thread < BINS ? bins[thread] : 0, need = needed, before = sum_before(here, warp_sums);
      if (before < need && need <= before + here) chosen = thread, needed = need - before;
      __syncthreads();
      last |= (W)chosen << shift;
      known |= (W)(BINS - 1) << shift;
      __syncthreads();
    }
    if (thread == 0) found = 0;
    u32 equals = needed, lesser = wanted - equals;
    __syncthreads();
    // Equals are taken in the order of their positions.
    for (u32 at = thread, seen = 0; at - thread < count; at += THREADS) {
      W key = at < count ? key_at(load(at), at) : ~(W)0;
      bool is_equal = at < count && key == last;
      if (at < count && key < last) append(atomicAdd(&found, 1u), key, at);
      u32 same = __ballot_sync(FULL, is_equal);
      if (lane == 0) bins[warp] = __popc(same);
      __syncthreads();
      u32 before = seen + __popc(same & ((1u << lane) - 1));
      for (u32 other = 0; other < THREADS / 32; ++other) {
        if (other < warp) before += bins[other];
        seen += bins[other];
      }
      if (is_equal && before < equals) append(lesser + before, key, at);
      __syncthreads();
    }
    sorted = wanted;
  }
  u32 padded = 2;
  while (padded < sorted) padded *= 2;
  for (u32 at = sorted + thread; at < padded; at += THREADS) keys[at] = ~(W)0, positions[at] = FULL;
  bitonic(keys, positions, padded, padded);
  for (u32 at = thread; at < plan.stored; at += THREADS) {
    u32 place = at < wanted ? positions[at] : FULL;
    if (INDIRECT) ((i64*)out)[row * plan.stored + at] = candidates[place];
    else if (plan.parts == 1) ((i64*)out)[row * plan.stored + at] = place;
    else candidates[at] = place == FULL ? FULL : begin + place;
  }
}

// Finds for each value the number of sorted elements that precede it, or that do not follow it.
template <typename K>
__device__ __forceinline__ void search(const K* sorted, const K* values, i64* out, const Plan& plan) {
  u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= plan.stored) return;
  auto key = key_of(values[at], plan.format);
  u64 low = 0, high = plan.length;
  while (low < high) {
    u64 middle = (low + high) / 2;
    auto other = key_of(sorted[middle], plan.format);
    if (other < key || (plan.counts_equal && other == key)) low = middle + 1;
    else high = middle;
  }
  out[at] = (i64)low;
}

// The kernels for words of type K, of which a thread of a pass has ITEMS.
#define KERNELS(K, ITEMS)                                                                                     \
  extern "C" __global__ void __launch_bounds__(256)                                                           \
  sort_histogram(const K* source, u32* words, const Plan plan) {                                              \
    histogram<K>(source, words + HEADER, plan);                                                                   \
  }                                                                                                           \
  extern "C" __global__ void __launch_bounds__(384, 2)                                                        \
  sort_words(const K* source, u8* out, u8* temporary, u32* words, const Plan plan) {                          \
    pass<K, false, 384, ITEMS>(source, out, temporary, words, plan);                                          \
  }                                                                                                           \
  extern "C" __global__ void __launch_bounds__(384, 2)                                                        \
  sort_positions(const K* source, u8* out, u8* temporary, u32* words, const Plan plan) {                      \
    pass<K, true, 384, ITEMS>(source, out, temporary, words, plan);                                           \
  }                                                                                                           \
  extern "C" __global__ void __launch_bounds__(256)                                                           \
  sort_rows(const K* source, u8* out, const Plan plan) {                                                      \
    rows<K, 2048>(source, out, plan);                                                                         \
  }                                                                                                           \
  extern "C" __global__ void __launch_bounds__(512, 2)                                                        \
  sort_select(const K* source, u8* out, u8* temporary, const Plan plan) {                                     \
    select<K, false, 512>(source, out, temporary, plan);                                                      \
  }                                                                                                           \
  extern "C" __global__ void __launch_bounds__(512, 2)                                                        \
  sort_reselect(const K* source, u8* out, u8* temporary, const Plan plan) {                                   \
    select<K, true, 512>(source, out, temporary, plan);                                                       \
  }                                                                                                           \
  extern "C" __global__ void __launch_bounds__(256)                                                           \
  sort_search(const K* sorted, const K* values, i64* out, const Plan plan) {                                  \
    search<K>(sorted, values, out, plan);                                                                     \
  }
