// nvrtc:
// Samples a row at the centres of its texels, and between them.
extern "C" __global__ void between(cudaTextureObject_t row, float *out, unsigned n)
{
    unsigned i = threadIdx.x;
    if (i < n)
        out[i] = tex1D<float>(row, 0.5f * i + 0.5f);
}

// Reads the texels of an image of rows of `width`.
extern "C" __global__ void texels(cudaTextureObject_t image, unsigned *out, unsigned width,
                                  unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = tex2D<unsigned>(image, i % width + 0.5f, i / width + 0.5f);
}

// Adds to the texels of an image of rows of `width`. A surface's x coordinates are in bytes.
extern "C" __global__ void brighten(cudaSurfaceObject_t image, unsigned by, unsigned width,
                                    unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned texel = surf2Dread<unsigned>(image, 4 * (i % width), i / width);
    surf2Dwrite(texel + by, image, 4 * (i % width), i / width);
}
