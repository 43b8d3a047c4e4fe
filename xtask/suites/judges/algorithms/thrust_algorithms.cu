// Thrust's algorithms.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

int main() {
    const int n = 4000;
    thrust::device_vector<int> keys(n), values(n, 1), other(n), third(n);
    thrust::device_vector<double> doubles(n, 0.5);
    thrust::sequence(keys.begin(), keys.end(), 0, 7919);
    auto shorten = [] __device__(int key) { return key % 1000; };
    thrust::transform(keys.begin(), keys.end(), keys.begin(), shorten);
    thrust::sort_by_key(keys.begin(), keys.end(), values.begin());
    thrust::stable_sort(values.begin(), values.end(), thrust::greater<int>());
    auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), values.begin(), other.begin(),
                                      third.begin());
    thrust::inclusive_scan(doubles.begin(), doubles.end(), doubles.begin());
    thrust::exclusive_scan_by_key(keys.begin(), keys.end(), values.begin(), third.begin());
    auto is_large = [] __device__(int key) { return key > 500; };
    thrust::copy_if(keys.begin(), keys.end(), other.begin(), is_large);
    thrust::unique_copy(keys.begin(), keys.end(), third.begin());
    thrust::copy(third.begin(), third.begin() + 1000, keys.begin());
    auto first = keys.begin(), last = keys.begin() + 900;
    thrust::set_union(first, last, first, last, other.begin());
    thrust::merge(first, last, first, last, other.begin());
    auto is_greater = [] __device__(double a, double b) { return a > b; };
    thrust::sort(doubles.begin(), doubles.end(), is_greater);
    int whole = thrust::reduce(values.begin(), values.end());
    int most = *thrust::max_element(keys.begin(), keys.begin() + 900);
    return whole == n && most == 899 && ends.first - other.begin() == 1000 ? 0 : 1;
}
