// CUB's algorithms within a block and a warp, whose storage is used again.
#include <cub/cub.cuh>

__global__ void blocks(const int *in, int *out) {
    using Load = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<int, 128, 4, cub::BLOCK_STORE_TRANSPOSE>;
    using Scan = cub::BlockScan<int, 128, cub::BLOCK_SCAN_WARP_SCANS>;
    using Raking = cub::BlockScan<int, 128, cub::BLOCK_SCAN_RAKING>;
    using Reduce = cub::BlockReduce<int, 128, cub::BLOCK_REDUCE_RAKING>;
    using Sort = cub::BlockRadixSort<int, 128, 4>;
    using Exchange = cub::BlockExchange<int, 128, 4>;
    using Histogram = cub::BlockHistogram<int, 128, 4, 64>;
    using WarpScan = cub::WarpScan<int>;
    using WarpReduce = cub::WarpReduce<int, 16>;
    __shared__ union {
        Load::TempStorage load;
        Store::TempStorage store;
        Scan::TempStorage scan;
        Raking::TempStorage raking;
        Reduce::TempStorage reduce;
        Sort::TempStorage sort;
        Exchange::TempStorage exchange;
        Histogram::TempStorage histogram;
        WarpScan::TempStorage warp_scan[4];
        WarpReduce::TempStorage warp_reduce[8];
    } shared;
    __shared__ int bins[64];
    int items[4], whole;
    Load(shared.load).Load(in + blockIdx.x * 512, items);
    __syncthreads();
    Scan(shared.scan).InclusiveSum(items, items, whole);
    __syncthreads();
    Raking(shared.raking).ExclusiveSum(items, items);
    __syncthreads();
    whole += Reduce(shared.reduce).Sum(items);
    __syncthreads();
    Sort(shared.sort).Sort(items);
    __syncthreads();
    Exchange(shared.exchange).BlockedToStriped(items, items);
    __syncthreads();
    for (int &item : items) item &= 63;
    Histogram(shared.histogram).Histogram(items, bins);
    __syncthreads();
    int lane_sum;
    WarpScan(shared.warp_scan[threadIdx.x / 32]).InclusiveSum(items[0], lane_sum);
    __syncthreads();
    items[0] = WarpReduce(shared.warp_reduce[threadIdx.x / 16]).Sum(items[1]);
    items[0] += lane_sum + bins[threadIdx.x / 2];
    if (threadIdx.x == 0) items[3] = whole;
    __syncthreads();
    Store(shared.store).Store(out + blockIdx.x * 512, items);
}

int main() {
    int *in, *out;
    cudaMalloc(&in, 4096 * sizeof(int));
    cudaMalloc(&out, 4096 * sizeof(int));
    cudaMemset(in, 1, 4096 * sizeof(int));
    blocks<<<8, 128>>>(in, out);
    return cudaDeviceSynchronize();
}
