// The other file of `separate.cu`.
#include "separate.cuh"

static __device__ int hidden = 7;

static __device__ __noinline__ int local(int value) { return value + hidden; }

__device__ int scaled(int value, int index) { return local(value * factors[index]); }

__global__ void other(int *values, int count) {
    int index = threadIdx.x;
    if (index < count)
        values[index] = local(doubled(factors[index % 4])) + total;
}
