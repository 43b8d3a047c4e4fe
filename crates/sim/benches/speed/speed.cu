// nvrtc:
// Kernels of the benchmark `speed`, each bounded by one part of the interpreter.

extern "C" __global__ void vecadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// Ten dependent multiply-adds of each element.
extern "C" __global__ void chain(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
#pragma unroll
    for (int k = 0; k < 10; k++) x = x * 1.0001f + 0.5f;
    out[i] = x;
}

extern "C" __global__ void fma32(float* out, int n) {
    float a = threadIdx.x, b = 1, c = 2, d = 3;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        a = a * 1.0001f + 0.5f;
        b = b * 1.0001f + 0.5f;
        c = c * 1.0001f + 0.5f;
        d = d * 1.0001f + 0.5f;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}

extern "C" __global__ void fma64(double* out, int n) {
    double a = threadIdx.x, b = 1, c = 2, d = 3;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        a = a * 1.0001 + 0.5;
        b = b * 1.0001 + 0.5;
        c = c * 1.0001 + 0.5;
        d = d * 1.0001 + 0.5;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}

// Loads from pseudorandom indices of `total` elements, a power of two.
extern "C" __global__ void gather(const int* in, int* out, int n, int total) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        sum += in[i & (total - 1)];
        i = i * 1103515245u + 12345u;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Threads of a warp take both sides of a branch in most iterations.
extern "C" __global__ void divergent(int* out, int n) {
    int i = threadIdx.x, s = i;
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        if ((s >> (k & 3)) & 1) {
            s = s * 3 + 1;
            if (s > 1000000) s -= 999983;
        } else {
            s = s / 2 + k;
            if (s & 8) s ^= 0x55;
        }
    }
    out[blockIdx.x * blockDim.x + i] = s;
}

#define OF_EACH(name, expression)                                                            \
    extern "C" __global__ void name(const float* in, float* out, int n) {                    \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                       \
        if (i >= n) return;                                                                  \
        float x = in[i] + threadIdx.x * 0.003f;                                              \
        for (int k = 0; k < 8; k++) x = expression;                                          \
        out[i] = x;                                                                          \
    }

OF_EACH(exponentials, expf(x) * 0.25f)
OF_EACH(powers, powf(x + 0.5f, 1.25f))
OF_EACH(sines, sinf(x + 0.75f))
OF_EACH(fast, __expf(x) * 0.25f + __sinf(x) + __log2f(x + 1.5f))
