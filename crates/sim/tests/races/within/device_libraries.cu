// nvrtc: --cccl --std=c++17 --gpu-architecture=compute_80 --define-macro=NDEBUG --device-int128 --disable-warnings --include-path=crates/sim/tests/races/within/headers
// The kernels that CUB's device-wide reduction, scan and radix sorts consist of, with small tiles; and
// reductions of cooperative groups, across the grid as well.
#include <cuda/std/cstdint>
#include <cuda/std/type_traits>
// CUB's agents name the host's library, which NVRTC has not.
namespace std {
using namespace cuda::std;
}
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/agent/agent_radix_sort_downsweep.cuh>
#include <cub/agent/agent_radix_sort_histogram.cuh>
#include <cub/agent/agent_radix_sort_onesweep.cuh>
#include <cub/agent/agent_radix_sort_upsweep.cuh>
#include <cub/agent/agent_reduce.cuh>
#include <cub/agent/agent_scan.cuh>
#include <cub/grid/grid_even_share.cuh>

namespace cg = cooperative_groups;
using u32 = unsigned int;
using plus = cuda::std::plus<>;

constexpr int THREADS = 64;
constexpr int ITEMS = 4;
constexpr int BITS = 5;
constexpr int DIGITS = 1 << BITS;

// A scan policy needs tiles of whole warps.
using ReducePolicy = cub::AgentReducePolicy<THREADS, ITEMS, u32, 4, cub::BLOCK_REDUCE_WARP_REDUCTIONS, cub::LOAD_DEFAULT>;
using ScanPolicy = cub::AgentScanPolicy<THREADS, ITEMS, u32, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::LOAD_DEFAULT,
                                        cub::BLOCK_STORE_WARP_TRANSPOSE, cub::BLOCK_SCAN_WARP_SCANS>;
using UpsweepPolicy = cub::AgentRadixSortUpsweepPolicy<THREADS, ITEMS, u32, cub::LOAD_DEFAULT, BITS>;
using DownsweepPolicy = cub::AgentRadixSortDownsweepPolicy<THREADS, ITEMS, u32, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::LOAD_DEFAULT,
                                                           cub::RADIX_RANK_BASIC, cub::BLOCK_SCAN_WARP_SCANS, BITS>;
using HistogramPolicy = cub::AgentRadixSortHistogramPolicy<THREADS, ITEMS, 1, u32, BITS>;
using OnesweepPolicy = cub::AgentRadixSortOnesweepPolicy<THREADS, ITEMS, u32, 1, cub::RADIX_RANK_MATCH_EARLY_COUNTS_ANY,
                                                         cub::BLOCK_SCAN_RAKING_MEMOIZE, cub::RADIX_SORT_STORE_DIRECT, BITS>;

// The sum of each block, then of the first `items` words in one block.
extern "C" __global__ void reduce_tiles(const u32* in, u32* out, int items) {
  using Agent = cub::detail::reduce::AgentReduce<ReducePolicy, const u32*, u32*, int, plus, u32>;
  __shared__ typename Agent::TempStorage storage;
  cub::GridEvenShare<int> share;
  share.DispatchInit(items, gridDim.x, ReducePolicy::BLOCK_THREADS * ReducePolicy::ITEMS_PER_THREAD);
  u32 sum = Agent(storage, in, plus{}).ConsumeTiles(share);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
extern "C" __global__ void reduce_tile(const u32* in, u32* out, int items) {
  using Agent = cub::detail::reduce::AgentReduce<ReducePolicy, const u32*, u32*, int, plus, u32>;
  __shared__ typename Agent::TempStorage storage;
  u32 sum = Agent(storage, in, plus{}).ConsumeRange(0, items);
  if (threadIdx.x == 0) *out = sum;
}

// The scan of all items, one tile in each block, which looks back at the tiles before it.
extern "C" __global__ void scan_init(u32* temporary, int tiles) {
  cub::ScanTileState<u32> state;
  state.Init(tiles, temporary, 0);
  state.InitializeStatus(tiles);
}
extern "C" __global__ void scan(const u32* in, u32* out, u32* temporary, int items) {
  using Agent = cub::detail::scan::AgentScan<ScanPolicy, const u32*, u32*, plus, u32, int, u32>;
  __shared__ typename Agent::TempStorage storage;
  cub::ScanTileState<u32> state;
  state.Init(gridDim.x, temporary, 0);
  Agent(storage, in, out, plus{}, 0u).ConsumeRange(items, state, 0);
}

// A pass of the radix sort by counting in each block, a scan of all counts in one, and scattering.
extern "C" __global__ void sort_upsweep(const u32* in, int* spine, int items, int bit) {
  using Agent = cub::detail::radix_sort::AgentRadixSortUpsweep<UpsweepPolicy, u32, int>;
  __shared__ typename Agent::TempStorage storage;
  cub::GridEvenShare<int> share;
  share.DispatchInit(items, gridDim.x, THREADS * ITEMS);
  share.template BlockInit<THREADS * ITEMS, cub::GRID_MAPPING_RAKE>();
  Agent upsweep(storage, in, bit, BITS);
  upsweep.ProcessRegion(share.block_offset, share.block_end);
  __syncthreads();
  upsweep.template ExtractCounts<false>(spine, gridDim.x, blockIdx.x);
}
extern "C" __global__ void sort_scan(int* spine, int counts) {
  using Agent = cub::detail::scan::AgentScan<ScanPolicy, int*, int*, plus, int, int, int>;
  __shared__ typename Agent::TempStorage storage;
  Agent scan(storage, spine, spine, plus{}, 0);
  int offset = 0;
  cub::BlockScanRunningPrefixOp<int, plus> prefix(0, plus{});
  for (; offset + Agent::TILE_ITEMS <= counts; offset += Agent::TILE_ITEMS) scan.template ConsumeTile<false, false>(offset, prefix);
  if (offset < counts) scan.template ConsumeTile<false, true>(offset, prefix, counts - offset);
}
extern "C" __global__ void sort_downsweep(const u32* in, u32* out, int* spine, int items, int bit) {
  using Agent = cub::detail::radix_sort::AgentRadixSortDownsweep<DownsweepPolicy, false, u32, cub::NullType, int>;
  __shared__ typename Agent::TempStorage storage;
  cub::GridEvenShare<int> share;
  share.DispatchInit(items, gridDim.x, THREADS * ITEMS);
  share.template BlockInit<THREADS * ITEMS, cub::GRID_MAPPING_RAKE>();
  Agent(storage, items, spine, in, out, nullptr, nullptr, bit, BITS).ProcessRegion(share.block_offset, share.block_end);
}

// A pass of the radix sort by one sweep, whose blocks look back at the counts of the blocks before.
extern "C" __global__ void sort_histogram(const u32* in, u32* bins, int items, int bit) {
  using Agent = cub::detail::radix_sort::AgentRadixSortHistogram<HistogramPolicy, false, u32, u32>;
  __shared__ typename Agent::TempStorage storage;
  Agent(storage, bins, in, items, bit, bit + BITS).Process();
}
extern "C" __global__ void sort_sum(u32* bins) {
  using Scan = cub::BlockScan<u32, DIGITS>;
  __shared__ typename Scan::TempStorage storage;
  u32 bin = bins[threadIdx.x];
  Scan(storage).ExclusiveSum(bin, bin);
  bins[threadIdx.x] = bin;
}
extern "C" __global__ void sort_onesweep(const u32* in, u32* out, const u32* bins, int* lookback, int* counter, int items, int bit) {
  using Agent = cub::detail::radix_sort::AgentRadixSortOnesweep<OnesweepPolicy, false, u32, cub::NullType, u32, int>;
  __shared__ typename Agent::TempStorage storage;
  Agent(storage, lookback, counter, nullptr, bins, out, in, nullptr, nullptr, items, bit, BITS).Process();
}

// The sum of all items by the whole grid: a reduction in each warp and block, and one behind the barrier of the grid.
extern "C" __global__ void grid_reduce(const u32* in, u32* out, u32* partial, int items) {
  __shared__ u32 warps[32];
  auto grid = cg::this_grid();
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  u32 sum = 0;
  for (int i = grid.thread_rank(); i < items; i += grid.size()) sum += in[i];
  sum = cg::reduce(warp, sum, cg::plus<u32>());
  if (warp.thread_rank() == 0) warps[warp.meta_group_rank()] = sum;
  block.sync();
  if (block.thread_rank() == 0) {
    u32 all = 0;
    for (unsigned i = 0; i < warp.meta_group_size(); i++) all += warps[i];
    partial[blockIdx.x] = all;
  }
  grid.sync();
  if (grid.thread_rank() == 0) {
    u32 all = 0;
    for (unsigned i = 0; i < gridDim.x; i++) all += partial[i];
    *out = all;
  }
}
