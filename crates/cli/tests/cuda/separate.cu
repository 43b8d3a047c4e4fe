// Relocatable device code in two files: symbols, constants, managed variables, functions of each
// other, and private ones of the same name.
#include <cstdio>
#include <cstdlib>
#include "separate.cuh"

#define OK(call)                                                                                 \
    do {                                                                                         \
        cudaError_t code = (call);                                                               \
        if (code != cudaSuccess) {                                                               \
            printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(code));              \
            exit(2);                                                                             \
        }                                                                                        \
    } while (0)

__device__ int counter = 3;
__constant__ int factors[4] = {1, 2, 3, 4};
__managed__ int total = 5;
static __device__ int hidden = 100;

static __device__ __noinline__ int local(int value) { return value + hidden; }

__global__ void first(int *values, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) {
        values[index] = scaled(local(index), index % 4) + doubled(1);
        atomicAdd(&counter, 1);
        atomicAdd(&total, index);
    }
}

int main() {
    const int count = 64;
    int *values, results[64], number, factor = 10;
    void *address;
    size_t bytes;
    OK(cudaMalloc(&values, sizeof results));
    first<<<2, 32>>>(values, count);
    OK(cudaMemcpy(results, values, sizeof results, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++)
        if (results[i] != (i + 100) * (i % 4 + 1) + 7 + 2)
            return printf("first: %d is %d\n", i, results[i]), 1;
    OK(cudaMemcpyFromSymbol(&number, counter, sizeof number));
    if (number != 3 + count || total != 5 + count * (count - 1) / 2)
        return printf("counter %d, total %d\n", number, total), 1;
    OK(cudaMemcpyToSymbol(factors, &factor, sizeof factor, 2 * sizeof factor));
    OK(cudaGetSymbolAddress(&address, counter));
    OK(cudaGetSymbolSize(&bytes, factors));
    total = 1000;
    other<<<1, 64>>>(values, count);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(results, values, sizeof results, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++)
        if (results[i] != 7 + 2 * (i % 4 == 2 ? 10 : i % 4 + 1) + 1000)
            return printf("other: %d is %d\n", i, results[i]), 1;
    if (bytes != 16)
        return printf("%zu bytes\n", bytes), 1;
    puts("right");
}
