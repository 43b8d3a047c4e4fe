// Thrust's compactions in place: a block reads what another overwrites.
#include <thrust/device_vector.h>
#include <thrust/remove.h>
#include <thrust/sequence.h>
#include <thrust/unique.h>

int main() {
    thrust::device_vector<int> keys(6000);
    thrust::sequence(keys.begin(), keys.end());
    auto is_third = [] __device__(int key) { return key % 3 == 0; };
    auto is_near = [] __device__(int a, int b) { return a / 6 == b / 6; };
    auto end = thrust::remove_if(keys.begin(), keys.end(), is_third);
    end = thrust::unique(keys.begin(), end, is_near);
    return end - keys.begin() == 1000 ? 0 : 1;
}
