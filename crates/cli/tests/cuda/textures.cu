// Arrays, textures and surfaces of the runtime API: fetches, filters, stores, and copies.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define OK(call)                                                                        \
    do {                                                                                \
        cudaError_t code = call;                                                        \
        if (code != cudaSuccess) {                                                      \
            printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(code));     \
            exit(2);                                                                    \
        }                                                                               \
    } while (0)
#define HOLDS(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            printf("line %d: not so: %s\n", __LINE__, #condition);                      \
            exit(2);                                                                    \
        }                                                                               \
    } while (0)

enum { WIDTH = 32, HEIGHT = 8, DEPTH = 4 };

__global__ void sample(float *out, cudaTextureObject_t texture) {
    int x = threadIdx.x, y = threadIdx.y;
    out[y * WIDTH + x] = tex2D<float>(texture, (x + 1.0f) / WIDTH, (y + 0.5f) / HEIGHT);
}

__global__ void brighten(cudaSurfaceObject_t surface) {
    int x = threadIdx.x, y = threadIdx.y;
    float value;
    surf2Dread(&value, surface, x * 4, y);
    surf2Dwrite(value + 100, surface, x * 4, y);
}

__global__ void gather(unsigned char *out, cudaTextureObject_t linear, cudaTextureObject_t box,
                       cudaTextureObject_t layers) {
    int x = threadIdx.x;
    out[x] = tex1Dfetch<unsigned char>(linear, WIDTH - 1 - x);
    out[WIDTH + x] = tex3D<uchar4>(box, x, 1, 2).y;
    out[2 * WIDTH + x] = (unsigned char)(255 * tex2DLayered<float>(layers, x, 3, 1) + 0.5f);
}

int main() {
    static float image[HEIGHT][WIDTH], out[HEIGHT][WIDTH];
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        image[0][i] = (float)i;
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>(), got;
    cudaArray_t array;
    OK(cudaMallocArray(&array, &floats, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
    OK(cudaMemcpy2DToArray(array, 0, 0, image, WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
    cudaExtent extent;
    unsigned flags;
    OK(cudaArrayGetInfo(&got, &extent, &flags, array));
    HOLDS(got.x == 32 && got.y == 0 && got.f == cudaChannelFormatKindFloat);
    HOLDS(extent.width == WIDTH && extent.height == HEIGHT && extent.depth == 0 && flags == 2);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc mode = {};
    mode.addressMode[0] = mode.addressMode[1] = cudaAddressModeClamp;
    mode.filterMode = cudaFilterModeLinear;
    mode.normalizedCoords = 1;
    cudaTextureObject_t texture;
    OK(cudaCreateTextureObject(&texture, &resource, &mode, nullptr));
    float *device;
    OK(cudaMalloc(&device, sizeof out));
    sample<<<1, dim3(WIDTH, HEIGHT)>>>(device, texture);
    OK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    // Between two texels, and at the edge the last one.
    HOLDS(out[2][3] == (image[2][3] + image[2][4]) / 2 && out[2][WIDTH - 1] == image[2][WIDTH - 1]);
    cudaSurfaceObject_t surface;
    OK(cudaCreateSurfaceObject(&surface, &resource));
    brighten<<<1, dim3(WIDTH, HEIGHT)>>>(surface);
    OK(cudaMemcpy2DFromArray(out, WIDTH * 4, array, 0, 0, WIDTH * 4, HEIGHT, cudaMemcpyDeviceToHost));
    HOLDS(out[5][7] == image[5][7] + 100);
    OK(cudaDestroySurfaceObject(surface));
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFreeArray(array));

    static unsigned char bytes[DEPTH * HEIGHT * WIDTH * 4];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + (i >> 8));
    unsigned char *linear;
    OK(cudaMalloc(&linear, WIDTH));
    OK(cudaMemcpy(linear, bytes, WIDTH, cudaMemcpyHostToDevice));
    cudaResourceDesc line = {};
    line.resType = cudaResourceTypeLinear;
    line.res.linear.devPtr = linear;
    line.res.linear.desc = cudaCreateChannelDesc<unsigned char>();
    line.res.linear.sizeInBytes = WIDTH;
    cudaTextureDesc plain = {};
    cudaTextureObject_t textures[3];
    OK(cudaCreateTextureObject(&textures[0], &line, &plain, nullptr));
    // A box of four components, and layers of one that are read as fractions.
    for (int layered = 0; layered < 2; layered++) {
        cudaChannelFormatDesc channels =
            layered ? cudaCreateChannelDesc<unsigned char>() : cudaCreateChannelDesc<uchar4>();
        size_t texel = layered ? 1 : 4;
        OK(cudaMalloc3DArray(&array, &channels, make_cudaExtent(WIDTH, HEIGHT, DEPTH),
                             layered ? cudaArrayLayered : 0));
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr(bytes, WIDTH * texel, WIDTH, HEIGHT);
        copy.dstArray = array;
        copy.extent = make_cudaExtent(WIDTH, HEIGHT, DEPTH);
        copy.kind = cudaMemcpyHostToDevice;
        OK(cudaMemcpy3D(&copy));
        resource.res.array.array = array;
        plain.readMode = layered ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
        OK(cudaCreateTextureObject(&textures[1 + layered], &resource, &plain, nullptr));
    }
    plain.filterMode = cudaFilterModeLinear;
    plain.readMode = cudaReadModeElementType;
    HOLDS(cudaCreateTextureObject(&texture, &resource, &plain, nullptr) == cudaErrorInvalidFilterSetting);
    unsigned char *gathered;
    OK(cudaMalloc(&gathered, 3 * WIDTH));
    gather<<<1, WIDTH>>>(gathered, textures[0], textures[1], textures[2]);
    static unsigned char found[3][WIDTH];
    OK(cudaMemcpy(found, gathered, sizeof found, cudaMemcpyDeviceToHost));
    for (int x = 0; x < WIDTH; x++) {
        HOLDS(found[0][x] == bytes[WIDTH - 1 - x]);
        HOLDS(found[1][x] == bytes[((2 * HEIGHT + 1) * WIDTH + x) * 4 + 1]);
        HOLDS(found[2][x] == bytes[(HEIGHT + 3) * WIDTH + x]);
    }
    printf("right\n");
    return 0;
}
