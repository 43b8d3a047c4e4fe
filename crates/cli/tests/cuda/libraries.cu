// CUB and Thrust on the device: reduce, scan, sort, select.
#include <cstdio>
#include <vector>
#include <algorithm>
#include <numeric>
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/copy.h>

struct IsEven {
    __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

static int failures;
static void check(bool is_right, const char *what) {
    if (!is_right) {
        printf("%s is wrong: %s\n", what, cudaGetErrorString(cudaGetLastError()));
        failures++;
    }
}

int main() {
    const int count = 3000;
    std::vector<int> host(count);
    unsigned state = 1;
    for (int &value : host)
        value = (state = state * 1664525 + 1013904223) >> 12 & 1023;
    std::vector<int> sorted = host, scanned(count), selected;
    std::sort(sorted.begin(), sorted.end());
    std::partial_sum(host.begin(), host.end(), scanned.begin());
    std::copy_if(host.begin(), host.end(), std::back_inserter(selected), IsEven());

    thrust::device_vector<int> values = host, results(count);
    check(thrust::reduce(values.begin(), values.end()) == scanned.back(), "thrust::reduce");
    thrust::inclusive_scan(values.begin(), values.end(), results.begin());
    check(std::vector<int>(results.begin(), results.end()) == scanned, "thrust::inclusive_scan");
    auto end = thrust::copy_if(values.begin(), values.end(), results.begin(), IsEven());
    check(std::vector<int>(results.begin(), end) == selected, "thrust::copy_if");
    results = values;
    thrust::sort(results.begin(), results.end());
    check(std::vector<int>(results.begin(), results.end()) == sorted, "thrust::sort");

    const int *in = thrust::raw_pointer_cast(values.data());
    int *out = thrust::raw_pointer_cast(results.data());
    thrust::device_vector<int> number(1);
    int *one = thrust::raw_pointer_cast(number.data());
    auto run = [](auto call) {
        size_t bytes = 0;
        call((void *)nullptr, bytes);
        thrust::device_vector<char> storage(bytes);
        check(call((void *)thrust::raw_pointer_cast(storage.data()), bytes) == cudaSuccess, "cub");
        cudaDeviceSynchronize();
    };
    run([&](void *at, size_t &bytes) { return cub::DeviceReduce::Sum(at, bytes, in, one, count); });
    check(number[0] == scanned.back(), "cub::DeviceReduce");
    run([&](void *at, size_t &bytes) {
        return cub::DeviceScan::InclusiveSum(at, bytes, in, out, count);
    });
    check(std::vector<int>(results.begin(), results.end()) == scanned, "cub::DeviceScan");
    run([&](void *at, size_t &bytes) {
        return cub::DeviceRadixSort::SortKeys(at, bytes, in, out, count);
    });
    check(std::vector<int>(results.begin(), results.end()) == sorted, "cub::DeviceRadixSort");
    run([&](void *at, size_t &bytes) {
        return cub::DeviceSelect::If(at, bytes, in, out, one, count, IsEven());
    });
    std::vector<int> chosen(results.begin(), results.begin() + number[0]);
    check(chosen == selected, "cub::DeviceSelect");
    puts(failures ? "wrong" : "right");
    return failures;
}
