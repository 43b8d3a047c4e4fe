// What two files of relocatable device code share.
#pragma once
extern __device__ int counter;
extern __constant__ int factors[4];
extern __managed__ int total;
__device__ int scaled(int value, int index);
template <typename T>
__device__ __noinline__ T doubled(T value) { return value + value; }
__global__ void other(int *values, int count);
