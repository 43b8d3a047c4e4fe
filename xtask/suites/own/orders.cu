// Orders between streams, by the argument: `ordered` is right; the others up to `freed` are races,
// and the last three are kernels that wait. A mark at the end of a line is what a report names.
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void add(int *numbers, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        numbers[index] += 1;
}

__global__ void wait(volatile int *flag, int *seen) {
    while (*flag == 0)
        ;
    __threadfence();
    *seen = *flag;
}

__global__ void set(volatile int *flag) { *flag = 5; }

static int finish(cudaError_t code) {
    std::printf("%s\n", code == cudaSuccess ? "PASSED" : cudaGetErrorName(code));
    return 0;
}

int main(int, char **arguments) {
    const int count = 4096, bytes = count * sizeof(int), blocks = count / 256;
    const char *mode = arguments[1];
    auto is = [mode](const char *name) { return std::strcmp(mode, name) == 0; };
    int *on_device, *flag, *pageable = (int *)std::calloc(count, sizeof(int));
    cudaStream_t one, two;
    cudaEvent_t event;
    cudaMalloc(&on_device, bytes);
    cudaMallocHost(&flag, 2 * sizeof(int));
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    cudaEventCreate(&event);
    flag[0] = flag[1] = 0;
    if (is("pageable")) {
        cudaMemcpy(on_device, pageable, bytes, cudaMemcpyHostToDevice); // pageable
        add<<<blocks, 256, 0, one>>>(on_device, count);                 // pageable
    } else if (is("flag") || is("other") || is("nobody")) {
        wait<<<1, 1, 0, one>>>(flag, flag + 1); // nobody
        if (is("flag"))
            *(volatile int *)flag = 5;
        if (is("other"))
            set<<<1, 1, 0, two>>>(flag);
    } else {
        cudaMemsetAsync(on_device, 0, bytes, one);
        add<<<blocks, 256, 0, one>>>(on_device, count); // streams
        cudaEventRecord(event, one);
        if (is("ordered"))
            cudaStreamWaitEvent(two, event);
        if (is("freed"))
            cudaFreeAsync(on_device, two); // freed
        else
            add<<<blocks, 256, 0, two>>>(on_device, count); // streams
    }
    return finish(cudaDeviceSynchronize());
}
