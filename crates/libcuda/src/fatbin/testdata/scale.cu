// Multiplies each value by a factor.
__global__ void scale(float *values, float factor, unsigned count) {
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) {
        values[index] *= factor;
    }
}
