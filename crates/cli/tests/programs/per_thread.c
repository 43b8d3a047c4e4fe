// Two threads use their null stream: one fills an array, and when that call has returned the other
// launches a kernel that reads it. With `legacy` both mean the legacy default stream, else each
// thread means its own default stream.
#include "driver.h"

#include <pthread.h>

enum { COUNT = 4096 };

int cuMemsetD32Async_ptsz(Address, unsigned, size_t, Handle);
int cuLaunchKernel_ptsz(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, Handle, void **, void **);

static Handle context;
static Address memory;
static int legacy;

static void *fill(void *unused) {
    OK(cuCtxSetCurrent(context));
    OK((legacy ? cuMemsetD32Async : cuMemsetD32Async_ptsz)(memory, 0x3f800000, COUNT, NULL));
    return unused;
}

int main(int argc, char **arguments) {
    Handle module, add;
    Address sum;
    uint64_t count = COUNT;
    void *address;
    pthread_t thread;
    legacy = argc > 2 && strcmp(arguments[2], "legacy") == 0;

    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuModuleLoad(&module, arguments[1]));
    OK(cuModuleGetFunction(&add, module, "vecadd"));
    OK(cuMemAlloc_v2(&memory, COUNT * sizeof(float)));
    OK(cuMemAlloc_v2(&sum, COUNT * sizeof(float)));
    // The per-thread form is found by its flag, and only so.
    OK(cuGetProcAddress_v2("cuMemsetD32Async", &address, 12000, 2, NULL));
    HOLDS(address == (void *)cuMemsetD32Async_ptsz);
    OK(cuGetProcAddress_v2("cuMemsetD32Async", &address, 12000, 0, NULL));
    HOLDS(address == (void *)cuMemsetD32Async);

    HOLDS(pthread_create(&thread, NULL, fill, NULL) == 0);
    HOLDS(pthread_join(thread, NULL) == 0);
    void *params[] = {&memory, &memory, &sum, &count};
    OK((legacy ? cuLaunchKernel : cuLaunchKernel_ptsz)(add, 16, 1, 1, 256, 1, 1, 0, NULL, params,
                                                       NULL));
    OK(cuCtxSynchronize());
    return 0;
}
