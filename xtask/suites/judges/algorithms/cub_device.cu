// CUB's algorithms for whole arrays.
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/sequence.h>

template <class Call> void run(Call call) {
    size_t bytes = 0;
    call(nullptr, bytes);
    thrust::device_vector<char> workspace(bytes + 1);
    call(thrust::raw_pointer_cast(workspace.data()), bytes);
    cudaDeviceSynchronize();
}

int main() {
    const int n = 6000;
    thrust::device_vector<int> in(n), out(n), keys(n), sorted(n), count(n), offsets(2);
    thrust::sequence(in.begin(), in.end(), 1);
    thrust::sequence(keys.begin(), keys.end(), 5);
    offsets[1] = n;
    int *i = thrust::raw_pointer_cast(in.data()), *o = thrust::raw_pointer_cast(out.data());
    int *k = thrust::raw_pointer_cast(keys.data()), *s = thrust::raw_pointer_cast(sorted.data());
    int *c = thrust::raw_pointer_cast(count.data()), *f = thrust::raw_pointer_cast(offsets.data());
    ::cuda::std::less<int> less;
    auto is_odd = [] __device__(int value) { return value % 2 == 1; };
    run([&](void *w, size_t &b) { cub::DeviceReduce::Sum(w, b, i, o, n); });
    auto *pair = (cub::KeyValuePair<int, int> *)o;
    run([&](void *w, size_t &b) { cub::DeviceReduce::ArgMin(w, b, i, pair, n); });
    run([&](void *w, size_t &b) { cub::DeviceScan::ExclusiveSum(w, b, i, o, n); });
    run([&](void *w, size_t &b) { cub::DeviceSelect::If(w, b, i, o, c, n, is_odd); });
    run([&](void *w, size_t &b) { cub::DeviceSelect::Unique(w, b, i, o, c, n); });
    run([&](void *w, size_t &b) { cub::DevicePartition::If(w, b, i, o, c, n, is_odd); });
    run([&](void *w, size_t &b) { cub::DeviceRadixSort::SortPairs(w, b, k, s, i, o, n); });
    run([&](void *w, size_t &b) { cub::DeviceMergeSort::SortKeys(w, b, s, n, less); });
    run([&](void *w, size_t &b) { cub::DeviceRunLengthEncode::Encode(w, b, i, o, c, s, n); });
    run([&](void *w, size_t &b) { cub::DeviceHistogram::HistogramEven(w, b, i, o, 33, 0, n, n); });
    run([&](void *w, size_t &b) { cub::DeviceSegmentedReduce::Sum(w, b, i, o, 1, f, f + 1); });
}
