// Own memory pools: creation, attributes, limits, access, and the end of a pool with memory in use.
#include "driver.h"

enum { FOLLOW_EVENTS = 1, OPPORTUNISTIC, INTERNAL, THRESHOLD, RESERVED, RESERVED_PEAK, USED,
       USED_PEAK };
enum { MIB = 1 << 20 };

struct Location {
    int type, id;
};
struct Pool {
    int type, handle_types;
    struct Location location;
    void *security;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
};
struct Access {
    struct Location location;
    int flags;
};
int cuMemPoolCreate(Handle *, const struct Pool *);
int cuMemPoolDestroy(Handle);
int cuMemPoolSetAttribute(Handle, int, void *);
int cuMemPoolGetAttribute(Handle, int, void *);
int cuMemPoolTrimTo(Handle, size_t);
int cuMemPoolSetAccess(Handle, const struct Access *, size_t);
int cuMemPoolGetAccess(int *, Handle, struct Location *);
int cuMemAllocFromPoolAsync(Address *, size_t, Handle, Handle);
int cuDeviceGetDefaultMemPool(Handle *, int);
int cuDeviceGetMemPool(Handle *, int);
int cuDeviceSetMemPool(int, Handle);
int cuMemGetDefaultMemPool(Handle *, struct Location *, int);
int cuMemGetMemPool(Handle *, struct Location *, int);
int cuMemSetMemPool(struct Location *, int, Handle);

static Handle stream, other;

static Handle create(int device, size_t max_size) {
    Handle pool;
    struct Pool fields = {.type = 1, .location = {1, device}, .max_size = max_size};
    OK(cuMemPoolCreate(&pool, &fields));
    return pool;
}

static uint64_t get(Handle pool, int attribute) {
    uint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void set(Handle pool, int attribute, uint64_t value) {
    OK(cuMemPoolSetAttribute(pool, attribute, &value));
}

static void refused(void) {
    Handle pool;
    struct Pool fields = {.type = 1, .location = {1, 0}};
    FAILS(1, cuMemPoolCreate(NULL, &fields));
    FAILS(1, cuMemPoolCreate(&pool, NULL));
    fields.location.id = 7;
    FAILS(1, cuMemPoolCreate(&pool, &fields));
    fields.location = (struct Location){0, 0};
    FAILS(1, cuMemPoolCreate(&pool, &fields));
    // Pools of the host's memory, and pools for other processes.
    fields.location.type = 2;
    FAILS(801, cuMemPoolCreate(&pool, &fields));
    fields.location.type = 1;
    fields.handle_types = 1;
    FAILS(801, cuMemPoolCreate(&pool, &fields));
    fields.handle_types = 0;
    fields.reserved[53] = 1;
    FAILS(1, cuMemPoolCreate(&pool, &fields));

    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    FAILS(1, cuMemPoolDestroy(pool));
    FAILS(1, cuMemPoolDestroy(NULL));
    FAILS(1, cuDeviceSetMemPool(1, pool));
    FAILS(1, cuDeviceSetMemPool(0, NULL));
    FAILS(1, cuDeviceGetMemPool(&pool, 2));
    uint64_t value = 1;
    FAILS(1, cuMemPoolSetAttribute(pool, RESERVED_PEAK, &value));
    FAILS(1, cuMemPoolSetAttribute(pool, USED, &value));
    FAILS(1, cuMemPoolGetAttribute(pool, 99, &value));
    Address memory;
    FAILS(1, cuMemAllocFromPoolAsync(&memory, 0, pool, stream));
    FAILS(1, cuMemAllocFromPoolAsync(&memory, 16, NULL, stream));
    FAILS(400, cuMemAllocFromPoolAsync(&memory, 16, pool, (Handle)16));
}

static void current_pool(void) {
    Handle own = create(0, 0), standard, found;
    struct Location here = {1, 0};
    Address memory;
    OK(cuDeviceGetDefaultMemPool(&standard, 0));
    OK(cuDeviceGetMemPool(&found, 0));
    HOLDS(found == standard && own != standard);
    OK(cuDeviceSetMemPool(0, own));
    OK(cuMemGetMemPool(&found, &here, 1));
    HOLDS(found == own);
    OK(cuMemAllocAsync(&memory, 3 * MIB, stream));
    HOLDS(get(own, USED) == 3 * MIB && get(standard, USED) == 0);
    OK(cuPointerGetAttribute(&found, 17, memory));
    HOLDS(found == own);
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolDestroy(own));
    OK(cuDeviceGetMemPool(&found, 0));
    HOLDS(found == standard);
    OK(cuMemGetDefaultMemPool(&found, &here, 1));
    HOLDS(found == standard);
    OK(cuMemSetMemPool(&here, 1, standard));
    FAILS(801, cuMemGetMemPool(&found, &here, 2));
}

static void attributes(void) {
    Handle pool = create(0, 16 * MIB);
    Address first, second;
    for (int reuse = FOLLOW_EVENTS; reuse <= INTERNAL; reuse++) {
        int off = 0, on = -1;
        OK(cuMemPoolGetAttribute(pool, reuse, &on));
        HOLDS(on == 1);
        OK(cuMemPoolSetAttribute(pool, reuse, &off));
        OK(cuMemPoolGetAttribute(pool, reuse, &on));
        HOLDS(on == 0);
    }
    // The limit of the pool.
    OK(cuMemAllocFromPoolAsync(&first, 10 * MIB, pool, stream));
    FAILS(2, cuMemAllocFromPoolAsync(&second, 10 * MIB, pool, stream));
    HOLDS(get(pool, RESERVED) == 10 * MIB && get(pool, USED) == 10 * MIB);
    OK(cuMemsetD8Async(first, 1, 10 * MIB, stream));
    // Without reuse across streams, the other stream cannot have the freed memory.
    OK(cuMemFreeAsync(first, stream));
    FAILS(2, cuMemAllocFromPoolAsync(&second, 10 * MIB, pool, other));
    set(pool, INTERNAL, 1);
    OK(cuMemAllocFromPoolAsync(&second, 10 * MIB, pool, other));
    OK(cuMemFreeAsync(second, other));
    // A synchronisation releases what is above the threshold, `TrimTo` what is above its number.
    set(pool, THRESHOLD, 6 * MIB);
    HOLDS(get(pool, THRESHOLD) == 6 * MIB);
    OK(cuCtxSynchronize());
    HOLDS(get(pool, RESERVED) == 6 * MIB && get(pool, USED) == 0);
    // The second allocation got 6 MiB of new memory, and 4 MiB behind the free of the first.
    HOLDS(get(pool, RESERVED_PEAK) == 16 * MIB && get(pool, USED_PEAK) == 16 * MIB);
    set(pool, RESERVED_PEAK, 0);
    set(pool, USED_PEAK, 0);
    HOLDS(get(pool, RESERVED_PEAK) == 6 * MIB && get(pool, USED_PEAK) == 0);
    OK(cuMemPoolTrimTo(pool, 2 * MIB));
    HOLDS(get(pool, RESERVED) == 2 * MIB);
    OK(cuMemPoolDestroy(pool));
}

static void destroyed_in_use(void) {
    Handle pool = create(0, 0);
    Address memory;
    size_t before, after, total;
    unsigned read = 0;
    OK(cuMemGetInfo_v2(&before, &total));
    OK(cuMemAllocFromPoolAsync(&memory, 4 * MIB, pool, stream));
    OK(cuMemPoolDestroy(pool));
    FAILS(1, cuMemPoolTrimTo(pool, 0));
    FAILS(1, cuMemPoolDestroy(pool));
    OK(cuMemsetD32Async(memory, 7, MIB, stream));
    OK(cuMemcpyDtoHAsync_v2(&read, memory, sizeof read, stream));
    OK(cuStreamSynchronize(stream));
    HOLDS(read == 7);
    OK(cuMemGetInfo_v2(&after, &total));
    HOLDS(after == before - 4 * MIB);
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemGetInfo_v2(&after, &total));
    HOLDS(after == before);
}

static void other_device(void) {
    Handle pool = create(1, 0);
    struct Location here = {1, 0};
    struct Access open = {here, 3}, closed = {here, 0}, own = {{1, 1}, 0};
    Address memory;
    int flags, device;
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    HOLDS(flags == 0);
    OK(cuMemPoolSetAccess(pool, &open, 1));
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    HOLDS(flags == 3);
    FAILS(101, cuMemPoolSetAccess(pool, &own, 1));
    // A stream of device 0 uses the memory of device 1.
    unsigned read = 0;
    OK(cuMemAllocFromPoolAsync(&memory, 64, pool, stream));
    OK(cuPointerGetAttribute(&device, 9, memory));
    HOLDS(device == 1);
    OK(cuMemsetD32Async(memory, 9, 16, stream));
    OK(cuMemcpyDtoHAsync_v2(&read, memory, sizeof read, stream));
    OK(cuStreamSynchronize(stream));
    HOLDS(read == 9);
    OK(cuMemFreeAsync(memory, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolSetAccess(pool, &closed, 1));
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    HOLDS(flags == 0);
    OK(cuMemPoolDestroy(pool));
}

int main(int arguments, char **argument) {
    Handle context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&other, 1));
    if (arguments > 1 && !strcmp(argument[1], "leak")) {
        create(0, 0);
    } else {
        refused();
        current_pool();
        attributes();
        destroyed_in_use();
        other_device();
    }
    OK(cuStreamDestroy_v2(other));
    OK(cuStreamDestroy_v2(stream));
    printf("all pools did\n");
    return 0;
}
