// Calls functions with random, stale and wild handles. Each must return, whatever it returns, and
// the memory of the process must not grow: what the program no longer keeps, it destroys.
#include "driver.h"

enum { KEPT = 64 };

static uint64_t state;

static uint64_t random_number(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// Handles of all kinds, alive or not.
static Handle kept[KEPT];

static Handle any(void) {
    uint64_t draw = random_number();
    switch (draw % 8) {
    case 0: return (Handle)(uintptr_t)(draw >> 8);
    case 1: return (Handle)(uintptr_t)(draw >> 60);
    case 2: return (Handle)(uintptr_t)((draw >> 8) % 40 << 40 | (draw >> 50) % 8);
    default: return kept[(draw >> 8) % KEPT];
    }
}

// Destroys the object of a handle, of whichever kind it is.
static void destroy(Handle handle) {
    if (cuStreamDestroy_v2(handle) == 0 || cuEventDestroy_v2(handle) == 0)
        return;
    if (cuModuleUnload(handle) != 0)
        cuCtxDestroy_v2(handle);
}

static void keep(Handle handle) {
    Handle *place = &kept[random_number() % KEPT];
    if (*place != handle)
        destroy(*place);
    *place = handle;
}

// Device memory that the program allocated and has not freed on purpose.
static Address allocated[KEPT];

static void keep_memory(Address address) {
    Address *place = &allocated[random_number() % KEPT];
    cuMemFree_v2(*place);
    *place = address;
}

// Returns the resident memory of the process in KiB.
static long resident(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib;
}

int main(int argc, char **arguments) {
    static unsigned char host[4096];
    Handle context, made = NULL;
    Address address = 0;
    size_t size;
    int value, succeeded = 0;
    unsigned flags;
    float milliseconds;
    const char *name;
    HOLDS(argc == 4);
    state = strtoull(arguments[2], NULL, 10) * 2 + 1;
    long calls = strtol(arguments[3], NULL, 10), early = 0;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (long i = 0; i < calls; i++) {
        int result = 0;
        if (i == calls / 2)
            early = resident();
        Address wild = (Address)(uintptr_t)any();
        if (random_number() % 4 == 0)
            wild = address + random_number() % 8192;
        // A device address, or one that no host memory has.
        wild |= (Address)1 << 48;
        switch (random_number() % 40) {
        case 0: result = cuStreamCreate(&made, random_number() % 3); keep(made); break;
        case 1: result = cuEventCreate(&made, random_number() % 5); keep(made); break;
        case 2: result = cuMemAlloc_v2(&address, random_number() % 8192); if (result == 0) keep_memory(address); break;
        case 3: result = cuModuleLoad(&made, arguments[1]); keep(made); break;
        case 4: result = cuModuleGetFunction(&made, any(), "vecadd"); keep(made); break;
        case 5: result = cuStreamDestroy_v2(any()); break;
        case 6: result = cuEventDestroy_v2(any()); break;
        case 7: result = cuModuleUnload(any()); break;
        case 8: result = cuStreamQuery(any()); break;
        case 9: result = cuStreamSynchronize(any()); break;
        case 10: result = cuStreamWaitEvent(any(), any(), random_number() % 3); break;
        case 11: result = cuEventRecord(any(), any()); break;
        case 12: result = cuEventQuery(any()); break;
        case 13: result = cuEventSynchronize(any()); break;
        case 14: result = cuEventElapsedTime(&milliseconds, any(), any()); break;
        case 15: result = cuMemFree_v2(wild); break;
        case 16: result = cuMemFreeAsync(wild, any()); break;
        case 17: result = cuMemAllocAsync(&address, random_number() % 8192, any()); if (result == 0) keep_memory(address); break;
        case 18: result = cuMemsetD8Async(wild, 1, random_number() % 8192, any()); break;
        case 19: result = cuMemcpyDtoH_v2(host, wild, random_number() % sizeof host); break;
        case 20: result = cuMemcpyHtoDAsync_v2(wild, host, random_number() % sizeof host, any()); break;
        case 21: result = cuMemcpyDtoD_v2(wild, address, random_number() % 8192); break;
        case 22: result = cuMemGetAddressRange_v2(&wild, &size, wild); break;
        case 23: result = cuPointerGetAttribute(&name, random_number() % 20, wild); break;
        case 24: result = cuFuncGetAttribute(&value, random_number() % 20, any()); break;
        case 25: result = cuFuncSetAttribute(any(), random_number() % 20, (int)random_number()); break;
        case 26: result = cuLibraryUnload(any()); break;
        case 27: result = cuLibraryGetKernel(&made, any(), "vecadd"); keep(made); break;
        case 28: result = cuKernelGetFunction(&made, any()); keep(made); break;
        case 29: result = cuLinkDestroy(any()); break;
        case 30: result = cuLinkComplete(any(), &made, &size); break;
        case 31: result = cuCtxPushCurrent_v2(any()); if (result == 0) cuCtxPopCurrent_v2(&made); break;
        case 32: if (random_number() % 8 == 0) { result = cuCtxCreate_v2(&made, 0, 0); keep(made); cuCtxPopCurrent_v2(&made); } break;
        case 33: result = cuCtxDestroy_v2(any()); break;
        case 34: result = cuStreamGetCtx(any(), &made); keep(made); break;
        case 35: result = cuStreamGetPriority(any(), &value); break;
        case 36: result = cuMemsetD2D8_v2(wild, random_number() % 200, 1, random_number() % 100, random_number() % 20); break;
        case 37: result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, any(), (int)random_number(), random_number()); break;
        case 38: {
            Address arguments_[4] = {wild, address, address, 16};
            void *params[] = {&arguments_[0], &arguments_[1], &arguments_[2], &arguments_[3]};
            // Never with memory that a kernel would miss: that would end the context.
            arguments_[3] = 0;
            result = cuLaunchKernel(any(), random_number() % 3, 1, 1, random_number() % 64, 1, 1, 0, any(), params, NULL);
            break;
        }
        case 39: result = cuCtxSetCurrent(context); break;
        }
        HOLDS(result >= 0 && result < 1000 && result != 999);
        HOLDS(cuGetErrorName(result, &name) == 0);
        succeeded += result == 0;
    }
    flags = 0;
    OK(cuCtxSetCurrent(context));
    OK(cuCtxGetFlags(&flags));
    OK(cuCtxSynchronize());
    long late = resident();
    printf("%d calls succeeded; %ld KiB after half of them, %ld KiB at the end\n", succeeded, early, late);
    // Descriptions of the last 65,536 freed allocations are kept, for reports of later uses.
    HOLDS(late < 128 << 10);
    HOLDS(calls < 8000000 || late < early + early / 20 + 4096);
    return succeeded > 0 ? 0 : 3;
}
