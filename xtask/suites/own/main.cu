// A kernel that calls a function, of another file if the device code is linked.
#include <cstdio>

#ifdef SEPARATE
__device__ int add(int left, int right);
#else
static __device__ int add(int left, int right) { return left + right; }
#endif

__global__ void kernel(int *result) { atomicAdd(result, add(threadIdx.x, 1)); }

int main() {
    int *result, sum = 0;
    cudaMalloc(&result, sizeof sum);
    cudaMemset(result, 0, sizeof sum);
    kernel<<<1, 32>>>(result);
    cudaMemcpy(&sum, result, sizeof sum, cudaMemcpyDeviceToHost);
    std::puts(sum == 528 ? "PASSED" : "FAILED");
    return sum != 528;
}
