// A program without device code.
#include <cstdio>
#include <cuda_runtime.h>

int main() {
    int count = 0;
    bool found = cudaGetDeviceCount(&count) == cudaSuccess && count == 1;
    std::puts(found ? "PASSED" : "FAILED");
    return !found;
}
