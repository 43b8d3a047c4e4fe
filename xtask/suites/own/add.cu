// A device function of another file.
__device__ int add(int left, int right) { return left + right; }
