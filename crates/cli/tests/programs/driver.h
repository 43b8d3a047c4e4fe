// The part of CUDA's driver API that the test programs use, declared by hand.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Address;
typedef void *Handle;

int cuInit(unsigned);
int cuDriverGetVersion(int *);
int cuGetErrorName(int, const char **);
int cuGetProcAddress(const char *, void **, int, uint64_t);
int cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
int cuDeviceGet(int *, int);
int cuDeviceGetCount(int *);
int cuDeviceGetAttribute(int *, int, int);
int cuDeviceTotalMem_v2(size_t *, int);
int cuDevicePrimaryCtxRetain(Handle *, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuDevicePrimaryCtxGetState(int, unsigned *, int *);
int cuCtxCreate_v2(Handle *, unsigned, int);
int cuCtxDestroy_v2(Handle);
int cuCtxDetach(Handle);
int cuCtxPushCurrent_v2(Handle);
int cuCtxPopCurrent_v2(Handle *);
int cuCtxSetCurrent(Handle);
int cuCtxGetCurrent(Handle *);
int cuCtxGetDevice(int *);
int cuCtxGetFlags(unsigned *);
int cuCtxSynchronize(void);
int cuCtxGetStreamPriorityRange(int *, int *);
int cuStreamCreate(Handle *, unsigned);
int cuStreamCreateWithPriority(Handle *, unsigned, int);
int cuStreamDestroy_v2(Handle);
int cuStreamQuery(Handle);
int cuStreamSynchronize(Handle);
int cuStreamWaitEvent(Handle, Handle, unsigned);
int cuStreamGetPriority(Handle, int *);
int cuStreamGetCtx(Handle, Handle *);
int cuStreamGetAttribute(Handle, unsigned, void *);
int cuStreamSetAttribute(Handle, unsigned, const void *);
int cuStreamCopyAttributes(Handle, Handle);
int cuStreamIsCapturing(Handle, int *);
int cuStreamAddCallback(Handle, void (*)(Handle, int, void *), void *, unsigned);
int cuLaunchHostFunc(Handle, void (*)(void *), void *);
int cuEventCreate(Handle *, unsigned);
int cuEventDestroy_v2(Handle);
int cuEventRecord(Handle, Handle);
int cuEventQuery(Handle);
int cuEventSynchronize(Handle);
int cuEventElapsedTime(float *, Handle, Handle);
int cuMemAlloc_v2(Address *, size_t);
int cuMemAllocPitch_v2(Address *, size_t *, size_t, size_t, unsigned);
int cuMemFree_v2(Address);
int cuMemAllocAsync(Address *, size_t, Handle);
int cuMemFreeAsync(Address, Handle);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemGetAddressRange_v2(Address *, size_t *, Address);
struct CopyAttributes { int order, hints[4]; unsigned flags; };
int cuMemcpyBatchAsync(Address *, Address *, size_t *, size_t, struct CopyAttributes *, size_t *, size_t, size_t *, Handle);
int cuMemcpyBatchAsync_v2(Address *, Address *, size_t *, size_t, struct CopyAttributes *, size_t *, size_t, Handle);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);
int cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *);
int cuMemHostGetDevicePointer_v2(Address *, void *, unsigned);
int cuMemHostGetFlags(unsigned *, void *);
int cuMemAllocManaged(Address *, size_t, unsigned);
int cuPointerGetAttribute(void *, int, Address);
int cuMemcpy(Address, Address, size_t);
int cuMemcpyHtoD_v2(Address, const void *, size_t);
int cuMemcpyDtoH_v2(void *, Address, size_t);
int cuMemcpyDtoD_v2(Address, Address, size_t);
int cuMemcpyDtoDAsync_v2(Address, Address, size_t, Handle);
int cuMemcpyHtoDAsync_v2(Address, const void *, size_t, Handle);
int cuMemcpyDtoHAsync_v2(void *, Address, size_t, Handle);
int cuMemsetD8_v2(Address, unsigned char, size_t);
int cuMemsetD32_v2(Address, unsigned, size_t);
int cuMemsetD8Async(Address, unsigned char, size_t, Handle);
int cuMemsetD32Async(Address, unsigned, size_t, Handle);
int cuMemsetD2D8_v2(Address, size_t, unsigned char, size_t, size_t);
int cuModuleLoad(Handle *, const char *);
int cuModuleLoadDataEx(Handle *, const void *, unsigned, int *, void **);
int cuModuleUnload(Handle);
int cuModuleGetFunction(Handle *, Handle, const char *);
int cuModuleGetGlobal_v2(Address *, size_t *, Handle, const char *);
int cuLibraryLoadData(Handle *, const void *, int *, void **, unsigned, int *, void **, unsigned);
int cuLibraryUnload(Handle);
int cuLibraryGetKernel(Handle *, Handle, const char *);
int cuLibraryGetModule(Handle *, Handle);
int cuKernelGetFunction(Handle *, Handle);
int cuKernelGetAttribute(int *, int, Handle, int);
int cuKernelGetName(const char **, Handle);
int cuFuncGetAttribute(int *, int, Handle);
int cuFuncSetAttribute(Handle, int, int);
int cuFuncSetBlockShape(Handle, int, int, int);
int cuFuncGetParamInfo(Handle, size_t, size_t *, size_t *);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, Handle, int, size_t);
int cuOccupancyMaxPotentialBlockSize(int *, int *, Handle, size_t (*)(int), size_t, int);
int cuLaunchKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   Handle, void **, void **);
int cuLinkCreate_v2(unsigned, int *, void **, Handle *);
int cuLinkAddData_v2(Handle, int, const void *, size_t, const char *, unsigned, int *, void **);
int cuLinkComplete(Handle, void **, size_t *);
int cuLinkDestroy(Handle);

struct Rows {
    size_t source_x, source_y;
    unsigned source_type;
    const void *source_host;
    Address source_device;
    Handle source_array;
    size_t source_pitch;
    size_t target_x, target_y;
    unsigned target_type;
    void *target_host;
    Address target_device;
    Handle target_array;
    size_t target_pitch;
    size_t width_bytes, height;
};
int cuMemcpy2D_v2(const struct Rows *);
int cuMemcpy2DAsync_v2(const struct Rows *, Handle);

struct Side {
    size_t x, y, z, level;
    unsigned type;
    void *host;
    Address device;
    Handle array, context;
    size_t pitch, height;
};
struct Box {
    struct Side source, target;
    size_t width_bytes, height, depth;
};
int cuMemcpy3D_v2(const struct Box *);
int cuMemcpy3DAsync_v2(const struct Box *, Handle);
int cuMemcpy3DPeer(const struct Box *);
int cuMemcpyPeer(Address, Handle, Address, Handle, size_t);
int cuCtxEnablePeerAccess(Handle, unsigned);
int cuCtxDisablePeerAccess(Handle);

struct Attribute {
    unsigned id, padding, value[16];
};
struct Config {
    unsigned grid[3], block[3], shared_bytes;
    Handle stream;
    struct Attribute *attributes;
    unsigned attribute_count;
};
int cuLaunchKernelEx(const struct Config *, Handle, void **, void **);

struct ArrayDescriptor { size_t width, height, depth; int format; unsigned channels, flags; };
struct Resource {
    int type;
    union {
        Handle array;
        struct { Address device; int format; unsigned channels; size_t bytes, height, pitch; } linear;
        int reserved[32];
    };
    unsigned flags;
};
struct TextureDescriptor {
    int modes[3], filter;
    unsigned flags, anisotropy;
    int mipmap_filter;
    float level_bias, level_min, level_max, border[4];
    int reserved[12];
};
struct View {
    int format;
    size_t width, height, depth;
    unsigned first_level, last_level, first_layer, last_layer, reserved[16];
};
int cuArrayCreate_v2(Handle *, const void *);
int cuArrayGetDescriptor_v2(void *, Handle);
int cuArray3DCreate_v2(Handle *, const struct ArrayDescriptor *);
int cuArray3DGetDescriptor_v2(struct ArrayDescriptor *, Handle);
int cuArrayDestroy(Handle);
int cuMemcpyHtoA_v2(Handle, size_t, const void *, size_t);
int cuMemcpyAtoH_v2(void *, Handle, size_t, size_t);
int cuMemcpyDtoA_v2(Handle, size_t, Address, size_t);
int cuMemcpyAtoD_v2(Address, Handle, size_t, size_t);
int cuMemcpyAtoA_v2(Handle, size_t, Handle, size_t, size_t);
int cuMemcpyHtoAAsync_v2(Handle, size_t, const void *, size_t, Handle);
int cuMemcpyAtoHAsync_v2(void *, Handle, size_t, size_t, Handle);
int cuTexObjectCreate(uint64_t *, const struct Resource *, const struct TextureDescriptor *, const struct View *);
int cuTexObjectDestroy(uint64_t);
int cuTexObjectGetResourceDesc(struct Resource *, uint64_t);
int cuTexObjectGetTextureDesc(struct TextureDescriptor *, uint64_t);
int cuTexObjectGetResourceViewDesc(struct View *, uint64_t);
int cuSurfObjectCreate(uint64_t *, const struct Resource *);
int cuSurfObjectDestroy(uint64_t);

// Ends the program unless a call returns `expected`.
static void expect(int expected, int result, const char *call, int line) {
    if (result != expected) {
        const char *name = "no name";
        cuGetErrorName(result, &name);
        printf("line %d: %s returned %d (%s), expected %d\n", line, call, result, name, expected);
        exit(2);
    }
}
#define OK(call) expect(0, call, #call, __LINE__)
#define FAILS(code, call) expect(code, call, #call, __LINE__)

// Ends the program unless the condition holds.
#define HOLDS(condition)                                       \
    do {                                                       \
        if (!(condition)) {                                    \
            printf("line %d: not so: %s\n", __LINE__, #condition); \
            exit(2);                                           \
        }                                                      \
    } while (0)
