// nvrtc: --generate-line-info
#line 1 "/src/reverse.cu"
// Reverses each 64 elements. A barrier is missing between the two lines of the body.
extern "C" __global__ void reverse(const int* x, int* y) {
  __shared__ int tile[64];
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}
