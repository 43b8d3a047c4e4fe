// A vector addition. With an argument, a kernel on a stream that waits for nothing doubles the sums.
#include <cstdio>
#include <vector>

__global__ void add(const float *a, const float *b, float *c, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        c[index] = a[index] + b[index];
}

template <typename T>
__global__ void twice(T *c, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        c[index] *= 2;
}

int main(int arguments, char **) {
    const int count = 1000, bytes = count * sizeof(float), blocks = (count + 255) / 256;
    std::vector<float> a(count, 1), b(count, 2), c(count);
    float *x, *y, *z;
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);
    cudaMalloc(&z, bytes);
    cudaMemcpy(x, a.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(y, b.data(), bytes, cudaMemcpyHostToDevice);
    add<<<blocks, 256>>>(x, y, z, count); // the first
    if (arguments > 1) {
        cudaStream_t stream;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        twice<<<blocks, 256, 0, stream>>>(z, count); // the second
        cudaStreamSynchronize(stream);
    }
    cudaMemcpy(c.data(), z, bytes, cudaMemcpyDeviceToHost);
    cudaDeviceProp device;
    cudaError_t code = cudaGetDeviceProperties(&device, 0);
    if (code != cudaSuccess || cudaGetLastError() != cudaSuccess)
        return printf("%s\n", cudaGetErrorString(code)), 1;
    puts(device.major == 9 && c[0] == c[count - 1] && (arguments > 1 || c[0] == 3) ? "right"
                                                                                   : "wrong");
}
