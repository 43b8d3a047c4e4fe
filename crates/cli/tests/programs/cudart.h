// The part of CUDA's runtime API that the test programs use, declared by hand, and what nvcc writes
// into a program: a fat binary, its wrapper, and the registration of kernels and variables.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned x, y, z; } Dim3;
typedef struct { size_t width, height, depth; } Extent;
typedef struct { void *address; size_t pitch, width, height; } Pitched;
typedef struct {
    void *source_array; Extent source_at; Pitched source;
    void *target_array; Extent target_at; Pitched target;
    Extent extent; int kind;
} Box;
typedef void *Handle;

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *,
                            void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
char __cudaInitModule(void **);
unsigned __cudaPushCallConfiguration(Dim3, Dim3, size_t, Handle);
int __cudaPopCallConfiguration(Dim3 *, Dim3 *, size_t *, void *);
int __cudaGetKernel(Handle *, const void *);
int __cudaLaunchKernel(Handle, Dim3, Dim3, void **, size_t, Handle);
int cudaLaunchKernel(const void *, Dim3, Dim3, void **, size_t, Handle);
int cudaLaunchKernel_ptsz(const void *, Dim3, Dim3, void **, size_t, Handle);
int cudaLaunchCooperativeKernel(const void *, Dim3, Dim3, void **, size_t, Handle);
int cudaLaunchKernelExC(const void *, const void *, void **);
int cudaLaunchHostFunc(Handle, void (*)(void *), void *);
const char *cudaGetErrorName(int);
const char *cudaGetErrorString(int);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
int cudaDriverGetVersion(int *);
int cudaRuntimeGetVersion(int *);
int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, unsigned long long, int *);
int cudaGetDeviceCount(int *);
int cudaGetDevice(int *);
int cudaSetDevice(int);
int cudaSetDeviceFlags(unsigned);
int cudaGetDeviceFlags(unsigned *);
int cudaGetDeviceProperties(void *, int);
int cudaGetDeviceProperties_v2(void *, int);
int cudaDeviceGetAttribute(int *, int, int);
int cudaDeviceGetLimit(size_t *, int);
int cudaDeviceSetLimit(int, size_t);
int cudaDeviceSynchronize(void);
int cudaDeviceReset(void);
int cudaDeviceCanAccessPeer(int *, int, int);
int cudaDeviceEnablePeerAccess(int, unsigned);
int cudaDeviceDisablePeerAccess(int);
int cudaIpcGetMemHandle(void *, void *);
int cudaMallocArray(Handle *, const void *, size_t, size_t, unsigned);
int cudaFreeArray(Handle);
int cudaMemcpyToArray(Handle, size_t, size_t, const void *, size_t, int);
int cudaMemcpyToArrayAsync(Handle, size_t, size_t, const void *, size_t, int, Handle);
int cudaMemcpyFromArray(void *, Handle, size_t, size_t, size_t, int);
int cudaMemcpyArrayToArray(Handle, size_t, size_t, Handle, size_t, size_t, size_t, int);
int cudaMemcpy2DToArray(Handle, size_t, size_t, const void *, size_t, size_t, size_t, int);
int cudaMemcpy2DFromArray(void *, size_t, Handle, size_t, size_t, size_t, size_t, int);
int cudaDeviceGetTexture1DLinearMaxWidth(size_t *, const void *, int);
int cudaMalloc(void **, size_t);
int cudaMallocHost(void **, size_t);
int cudaMallocManaged(void **, size_t, unsigned);
int cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaMalloc3D(Pitched *, Extent);
int cudaMallocAsync(void **, size_t, Handle);
int cudaFree(void *);
int cudaFreeHost(void *);
int cudaFreeAsync(void *, Handle);
int cudaMemGetInfo(size_t *, size_t *);
int cudaPointerGetAttributes(void *, const void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, Handle);
int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
int cudaGetSymbolAddress(void **, const void *);
int cudaGetSymbolSize(size_t *, const void *);
int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
int cudaMemcpy3D(const Box *);
int cudaMemcpyPeer(void *, int, const void *, int, size_t);
int cudaMemset(void *, int, size_t);
int cudaMemset_ptds(void *, int, size_t);
int cudaMemset3D(Pitched, int, Extent);
int cudaMemPrefetchAsync();
int cudaStreamCreate(Handle *);
int cudaStreamCreateWithFlags(Handle *, unsigned);
int cudaStreamDestroy(Handle);
int cudaStreamQuery(Handle);
int cudaStreamSynchronize(Handle);
int cudaStreamWaitEvent(Handle, Handle, unsigned);
int cudaStreamBeginCapture(Handle, int);
int cudaStreamBeginCaptureToGraph(Handle, Handle, const Handle *, const void *, size_t, int);
int cudaStreamEndCapture(Handle, Handle *);
int cudaStreamGetCaptureInfo();
int cudaEventCreate(Handle *);
int cudaEventCreateWithFlags(Handle *, unsigned);
int cudaEventDestroy(Handle);
int cudaEventRecord(Handle, Handle);
int cudaEventQuery(Handle);
int cudaEventSynchronize(Handle);
int cudaEventElapsedTime(float *, Handle, Handle);
int cudaGraphCreate(Handle *, unsigned);
int cudaGraphAddKernelNode(Handle *, Handle, const Handle *, size_t, const void *);
int cudaGraphKernelNodeGetParams(Handle, void *);
int cudaGraphAddMemcpyNode1D(Handle *, Handle, const Handle *, size_t, void *, const void *,
                             size_t, int);
int cudaGraphMemcpyNodeGetParams(Handle, Box *);
int cudaGraphAddMemsetNode(Handle *, Handle, const Handle *, size_t, const void *);
int cudaGraphAddNode();
int cudaGraphAddDependencies();
int cudaGraphInstantiate(Handle *, Handle, unsigned long long);
int cudaGraphLaunch(Handle, Handle);
int cudaGraphExecDestroy(Handle);
int cudaGraphDestroy(Handle);
int cudaFuncGetAttributes(void *, const void *);
int cudaFuncSetAttribute(const void *, int, int);
int cudaFuncGetName(const char **, const void *);
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *, const void *, int, size_t,
                                                           unsigned);

#ifdef GPU
#define DIFFERS fflush(stdout)
#else
#define DIFFERS exit(2)
#endif

// Ends the program unless the call returns this.
#define FAILS(code, call)                                                                        \
    do {                                                                                         \
        int returned_ = (call);                                                                  \
        if (returned_ != (code)) {                                                               \
            printf("line %d: %s returned %d\n", __LINE__, #call, returned_);                     \
            DIFFERS;                                                                             \
        }                                                                                        \
    } while (0)
#define OK(call) FAILS(0, call)
#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            printf("line %d: not %s\n", __LINE__, #condition);                                   \
            DIFFERS;                                                                             \
        }                                                                                        \
    } while (0)

typedef struct {
    int magic, version;
    const void *data;
    void *list;
} Wrapper;

// Returns a fat binary with PTX (kind 1) or machine code (kind 2) for a device. The header of an
// entry ends with the place of the compiler's options, an empty string: NVIDIA's tools read it.
static inline void *fat_binary(const char *ptx, int kind, int device) {
    size_t text = strlen(ptx) + 1, padded = (text + 7) / 8 * 8;
    unsigned char *bytes = calloc(1, 16 + 80 + padded);
    uint32_t header[4] = {0xba55ed50, 1 | 16 << 16, 80 + padded, 0};
    uint32_t entry[20] = {kind | 0x101 << 16, 80, padded, 0, 0, 64, 8 << 16, device,
                          0, 0, 0x11, 0, 0, 0, 0, 0, 72};
    memcpy(bytes, header, 16);
    memcpy(bytes + 16, entry, 80);
    memcpy(bytes + 96, ptx, text);
    return bytes;
}

// Registers a fat binary as nvcc's constructors do, and returns its handle.
static inline void **registered(const void *data) {
    static Wrapper wrappers[8];
    static int count;
    Wrapper *wrapper = &wrappers[count++];
    *wrapper = (Wrapper){0x466243b1, 1, data, NULL};
    return __cudaRegisterFatBinary(wrapper);
}

// The same of objects that were compiled to be linked.
static inline void **registered_list(void **list) {
    static Wrapper wrapper;
    wrapper = (Wrapper){0x466243b1, 2, list[0], list};
    return __cudaRegisterFatBinary(&wrapper);
}

static inline void register_kernel(void **image, const void *host, const char *name) {
    __cudaRegisterFunction(image, host, (char *)name, name, -1, NULL, NULL, NULL, NULL, NULL);
}

static const Dim3 one = {1, 1, 1};
