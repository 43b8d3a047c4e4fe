// Cooperative groups: tiles, coalesced threads, blocks and the grid.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace groups = cooperative_groups;

__global__ void tiles(const int *in, int *out) {
    __shared__ int shared[256];
    groups::thread_block block = groups::this_thread_block();
    groups::memcpy_async(block, shared, in + blockIdx.x * 256, 256 * sizeof(int));
    groups::wait(block);
    auto warp = groups::tiled_partition<32>(block);
    auto half = groups::tiled_partition<16>(warp);
    int value = shared[255 - threadIdx.x];
    value += groups::reduce(warp, value, groups::plus<int>()) + groups::inclusive_scan(half, value);
    block.sync();
    shared[threadIdx.x] = value;
    half.sync();
    value += shared[threadIdx.x ^ 1];
    if (value % 3 != 0) {
        groups::coalesced_group active = groups::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(out, (int)active.size());
        value += active.shfl(value, 0) + groups::reduce(active, value, groups::less<int>());
        auto same = groups::labeled_partition(active, value & 1);
        value += same.size();
    }
    auto two = groups::binary_partition(warp, value & 1);
    two.sync();
    out[1 + blockIdx.x * 256 + threadIdx.x] = value + two.size();
}

__global__ void grids(int *data, int n) {
    groups::grid_group grid = groups::this_grid();
    for (int step = 1; step < n; step *= 2) {
        int from = grid.thread_rank() + step;
        int value = from < n ? data[from] : 0;
        grid.sync();
        if (grid.thread_rank() < n) data[grid.thread_rank()] += value;
        grid.sync();
    }
}

int main() {
    int *in, *out, n = 512;
    cudaMalloc(&in, 1024 * sizeof(int));
    cudaMalloc(&out, 1025 * sizeof(int));
    cudaMemset(in, 1, 1024 * sizeof(int));
    cudaMemset(out, 0, 1025 * sizeof(int));
    tiles<<<4, 256>>>(in, out);
    void *arguments[] = {&in, &n};
    cudaLaunchCooperativeKernel((void *)grids, 4, 128, arguments, 0, 0);
    return cudaDeviceSynchronize();
}
