// nvrtc:
// The kernels of the guide's pages, for grids of one dimension.

// y[i] = a * x[i] + y[i] for each i < n.
extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

// sums[b] = the sum of the elements that block b reads. Blocks have a power of two of threads, and
// a float of dynamic shared memory for each thread.
extern "C" __global__ void block_sums(const float* x, float* sums, size_t n) {
  extern __shared__ float partial[];
  unsigned t = threadIdx.x;
  size_t i = blockIdx.x * (size_t)blockDim.x + t;
  partial[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    if (t < step) partial[t] += partial[t + step];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = partial[0];
}
