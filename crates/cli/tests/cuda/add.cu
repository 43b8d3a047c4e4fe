#include <cstdio>
#include <vector>
__global__ void add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void twice(float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] *= 2;
}
int main(int argc, char **) {
  int n = 1000;
  std::vector<float> a(n, 1), b(n, 2), c(n);
  float *x, *y, *z;
  cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMalloc(&z, n * 4);
  cudaMemcpy(x, a.data(), n * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(y, b.data(), n * 4, cudaMemcpyHostToDevice);
  add<<<(n + 255) / 256, 256>>>(x, y, z, n);
  if (argc > 1) {
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    twice<<<(n + 255) / 256, 256, 0, s>>>(z, n);
    cudaStreamSynchronize(s);
  }
  cudaMemcpy(c.data(), z, n * 4, cudaMemcpyDeviceToHost);
  printf("%s %f %f\n", cudaGetErrorString(cudaGetLastError()), c[0], c[999]);
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);
  printf("%s %d.%d %d %zu %d\n", p.name, p.major, p.minor, p.multiProcessorCount, p.totalGlobalMem, p.clusterLaunch);
}
