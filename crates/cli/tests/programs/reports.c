// Races on memory of every allocation function, and of every kind of copy from and to pageable
// memory.
#include "driver.h"

int cuMemAllocHost_v2(void **, size_t);
int cuMemAllocFromPoolAsync(Address *, size_t, Handle, Handle);
int cuDeviceGetDefaultMemPool(Handle *, int);
int cuMemcpyAsync(Address, Address, size_t, Handle);

enum { BYTES = 64, LARGE = 128 << 10 };

static Handle one, other;
static Address source;
static char pageable[LARGE];

static Address fresh(size_t bytes) {
    Address memory;
    OK(cuMemAlloc_v2(&memory, bytes));
    OK(cuMemsetD8_v2(memory, 1, bytes));
    OK(cuCtxSynchronize());
    return memory;
}

static void write_twice(Address memory) {
    OK(cuMemcpyAsync(memory, source, BYTES, one));
    OK(cuMemcpyAsync(memory, source, BYTES, other));
    OK(cuCtxSynchronize());
}

int main(void) {
    Handle context, pool;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&one, 1));
    OK(cuStreamCreate(&other, 1));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    source = fresh(BYTES);

    Address memory;
    size_t pitch;
    void *host;
    OK(cuMemAlloc_v2(&memory, BYTES));
    write_twice(memory);
    OK(cuMemAllocPitch_v2(&memory, &pitch, BYTES, 2, 4));
    write_twice(memory);
    OK(cuMemAllocManaged(&memory, BYTES, 1));
    write_twice(memory);
    OK(cuMemAllocAsync(&memory, BYTES, one));
    OK(cuCtxSynchronize());
    write_twice(memory);
    OK(cuMemAllocFromPoolAsync(&memory, BYTES, pool, one));
    OK(cuCtxSynchronize());
    write_twice(memory);
    OK(cuMemHostAlloc(&host, BYTES, 0));
    write_twice((Address)host);
    OK(cuMemAllocHost_v2(&host, BYTES));
    write_twice((Address)host);
    OK(cuMemHostRegister_v2(pageable, BYTES, 0));
    write_twice((Address)pageable);
    OK(cuMemHostUnregister(pageable));

    memory = fresh(BYTES);
    OK(cuMemcpyHtoD_v2(memory, pageable, BYTES)); // rule 6
    OK(cuMemsetD8Async(memory, 2, BYTES, other));
    memory = fresh(LARGE);
    OK(cuMemcpyHtoD_v2(memory, pageable, LARGE)); // rule 1
    OK(cuMemsetD8Async(memory, 2, LARGE, other));
    memory = fresh(BYTES);
    OK(cuMemcpyHtoDAsync_v2(memory, pageable, BYTES, one)); // rule 8
    OK(cuMemsetD8Async(memory, 2, BYTES, other));
    memory = fresh(BYTES);
    OK(cuMemsetD8Async(memory, 2, BYTES, other));
    OK(cuMemcpyDtoH_v2(pageable, memory, BYTES)); // rule 3
    memory = fresh(BYTES);
    OK(cuMemsetD8Async(memory, 2, BYTES, other));
    OK(cuMemcpyDtoHAsync_v2(pageable, memory, BYTES, one)); // rule 9
    OK(cuCtxSynchronize());
    return 0;
}
