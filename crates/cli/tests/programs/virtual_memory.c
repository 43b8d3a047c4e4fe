// Virtual memory management: reserved ranges, physical memory, mappings, access. With a mode, one
// wrong use.
#include "driver.h"

enum { MIB = 1 << 20, PAGE = 2 * MIB };

struct Location {
    int type, id;
};
struct Properties {
    int type, handle_types;
    struct Location location;
    void *metadata;
    unsigned char flags[8];
};
struct Access {
    struct Location location;
    int flags;
};
int cuMemAddressReserve(Address *, size_t, size_t, Address, uint64_t);
int cuMemAddressFree(Address, size_t);
int cuMemCreate(uint64_t *, size_t, const struct Properties *, uint64_t);
int cuMemRelease(uint64_t);
int cuMemMap(Address, size_t, size_t, uint64_t, uint64_t);
int cuMemUnmap(Address, size_t);
int cuMemSetAccess(Address, size_t, const struct Access *, size_t);
int cuMemGetAccess(uint64_t *, const struct Location *, Address);
int cuMemGetAllocationGranularity(size_t *, const struct Properties *, int);
int cuMemGetAllocationPropertiesFromHandle(struct Properties *, uint64_t);
int cuMemRetainAllocationHandle(uint64_t *, Address);
int cuMemExportToShareableHandle(void *, uint64_t, int, uint64_t);

static struct Properties on_device = {.type = 1, .location = {1, 0}};
static Handle module, vecadd, streams[2];

static Address reserve(size_t bytes) {
    Address base;
    OK(cuMemAddressReserve(&base, bytes, 0, 0, 0));
    return base;
}

static uint64_t create(size_t bytes) {
    uint64_t handle;
    OK(cuMemCreate(&handle, bytes, &on_device, 0));
    return handle;
}

static int set_access(Address base, size_t bytes, int flags) {
    struct Access access = {{1, 0}, flags};
    return cuMemSetAccess(base, bytes, &access, 1);
}

// Maps new physical memory, which ends with the mapping.
static void map_new(Address base, size_t bytes) {
    uint64_t handle = create(bytes);
    OK(cuMemMap(base, bytes, 0, handle, 0));
    OK(cuMemRelease(handle));
    OK(set_access(base, bytes, 3));
}

static int add(Address a, Address b, Address c, uint64_t n, Handle stream) {
    void *params[] = {&a, &b, &c, &n};
    return cuLaunchKernel(vecadd, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, params, NULL);
}

static size_t free_bytes(void) {
    size_t free_now, total;
    OK(cuMemGetInfo_v2(&free_now, &total));
    return free_now;
}

static void grows_like_a_pool(void) {
    enum { N = 3 * PAGE / 4 };
    size_t free_before = free_bytes();
    Address base = reserve((size_t)32 << 30);
    HOLDS(free_bytes() == free_before);
    for (int i = 0; i < 3; i++)
        map_new(base + (size_t)i * PAGE, PAGE);
    HOLDS(free_bytes() == free_before - 3 * PAGE);

    // Copies, fills and kernels go across the mappings.
    float *host = malloc(4 * N);
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    OK(cuMemcpyHtoD_v2(base, host, 4 * N));
    OK(add(base, base, base, N, NULL));
    memset(host, 0, 4 * N);
    OK(cuMemcpyDtoH_v2(host, base, 4 * N));
    for (int i = 0; i < N; i++)
        HOLDS(host[i] == 2.0f * (float)i);
    OK(cuMemcpyDtoD_v2(base + 5 * MIB, base + MIB, MIB));
    OK(cuMemcpyDtoH_v2(host, base + 5 * MIB, MIB));
    HOLDS(host[0] == 2.0f * (MIB / 4) && host[MIB / 4 - 1] == 2.0f * (2 * (MIB / 4) - 1));
    OK(cuMemsetD32_v2(base + PAGE - 64, 0x40000000, 1024));
    OK(cuMemcpyDtoH_v2(host, base + PAGE - 64, 4096));
    HOLDS(host[0] == 2.0f && host[1023] == 2.0f);
    // Rows, of which one lies in two mappings.
    struct Rows rows = {.source_type = 2, .source_device = base + MIB, .source_pitch = MIB,
                        .target_type = 1, .target_host = host, .target_pitch = MIB / 2,
                        .width_bytes = MIB / 2, .height = 4};
    OK(cuMemcpy2D_v2(&rows));
    rows.source_device = base + 2 * PAGE;
    FAILS(1, cuMemcpy2D_v2(&rows));

    // One call ends all mappings in a range, and no part of one.
    FAILS(1, cuMemUnmap(base, MIB));
    FAILS(1, cuMemUnmap(base + MIB, PAGE));
    FAILS(1, cuMemAddressFree(base, (size_t)32 << 30));
    OK(cuMemUnmap(base, 4 * PAGE));
    HOLDS(free_bytes() == free_before);
    FAILS(1, cuMemAddressFree(base, PAGE));
    OK(cuMemAddressFree(base, (size_t)32 << 30));
    FAILS(1, cuMemAddressFree(base, (size_t)32 << 30));
    free(host);
}

static void keeps_memory_while_it_is_held_or_mapped(void) {
    size_t free_before = free_bytes();
    Address base = reserve(8 * PAGE);
    uint64_t handle = create(PAGE), other;
    OK(cuMemMap(base, PAGE, 0, handle, 0));
    OK(cuMemMap(base + 4 * PAGE, PAGE, 0, handle, 0));
    OK(set_access(base, PAGE, 3));
    OK(set_access(base + 4 * PAGE, PAGE, 1));
    uint64_t flags;
    struct Location here = {1, 0};
    OK(cuMemGetAccess(&flags, &here, base + 7));
    HOLDS(flags == 3);
    OK(cuMemGetAccess(&flags, &here, base + 4 * PAGE));
    HOLDS(flags == 1);
    FAILS(1, cuMemGetAccess(&flags, &here, base + PAGE));

    // Both addresses have the same bytes.
    OK(cuMemsetD32_v2(base, 41, PAGE / 4));
    uint32_t word = 0;
    OK(cuMemcpyDtoH_v2(&word, base + 5 * PAGE - 4, 4));
    HOLDS(word == 41);
    OK(cuMemUnmap(base, PAGE));
    OK(cuMemRelease(handle));
    FAILS(1, cuMemRelease(handle));
    FAILS(1, cuMemMap(base, PAGE, 0, handle, 0));
    OK(cuMemRetainAllocationHandle(&other, base + 4 * PAGE + 8));
    FAILS(1, cuMemRetainAllocationHandle(&other, base));
    struct Properties found;
    OK(cuMemGetAllocationPropertiesFromHandle(&found, other));
    HOLDS(found.type == 1 && found.location.type == 1 && found.location.id == 0);
    OK(cuMemUnmap(base + 4 * PAGE, PAGE));
    HOLDS(free_bytes() == free_before - PAGE);
    OK(cuMemMap(base, PAGE, 0, other, 0));
    OK(set_access(base, PAGE, 3));
    OK(cuMemcpyDtoH_v2(&word, base + 8, 4));
    HOLDS(word == 41);
    Address start;
    size_t bytes;
    OK(cuMemGetAddressRange_v2(&start, &bytes, base + 9));
    HOLDS(start == base && bytes == PAGE);
    FAILS(1, cuMemFree_v2(base));
    OK(cuMemRelease(other));
    OK(cuMemUnmap(base, PAGE));
    HOLDS(free_bytes() == free_before);
    OK(cuMemAddressFree(base, 8 * PAGE));
}

static void refuses(void) {
    Address base;
    uint64_t handle;
    size_t granularity;
    OK(cuMemGetAllocationGranularity(&granularity, &on_device, 0));
    HOLDS(granularity == PAGE);
    FAILS(1, cuMemGetAllocationGranularity(&granularity, &on_device, 2));
    FAILS(1, cuMemAddressReserve(NULL, PAGE, 0, 0, 0));
    FAILS(1, cuMemAddressReserve(&base, 0, 0, 0, 0));
    FAILS(1, cuMemAddressReserve(&base, 5, 0, 0, 0));
    FAILS(1, cuMemAddressReserve(&base, PAGE, 3, 0, 0));
    FAILS(1, cuMemAddressReserve(&base, PAGE, 0, 0, 1));
    FAILS(2, cuMemAddressReserve(&base, ~(size_t)0 - PAGE + 1, 0, 0, 0));
    FAILS(1, cuMemAddressReserve(&base, PAGE, (size_t)1 << 30, 12345, 0));
    OK(cuMemAddressReserve(&base, PAGE, (size_t)1 << 30, PAGE, 0));
    HOLDS(base % (1 << 30) == 0);
    FAILS(1, cuMemCreate(&handle, 0, &on_device, 0));
    FAILS(1, cuMemCreate(&handle, MIB, &on_device, 0));
    FAILS(1, cuMemCreate(&handle, PAGE, NULL, 0));
    FAILS(2, cuMemCreate(&handle, (size_t)1 << 50, &on_device, 0));
    struct Properties other = on_device;
    other.location.id = 7;
    FAILS(101, cuMemCreate(&handle, PAGE, &other, 0));
    other = on_device;
    other.handle_types = 1;
    FAILS(801, cuMemCreate(&handle, PAGE, &other, 0));
    other = on_device;
    other.location.type = 3;
    FAILS(801, cuMemCreate(&handle, PAGE, &other, 0));
    handle = create(PAGE);
    int file;
    FAILS(801, cuMemExportToShareableHandle(&file, handle, 1, 0));
    FAILS(801, cuMemMap(base, 2 * PAGE, 0, handle, 0));
    FAILS(1, cuMemMap(base + PAGE, PAGE, 0, handle, 0));
    FAILS(801, cuMemMap(base, PAGE, PAGE, handle, 0));
    FAILS(1, cuMemMap(base, PAGE, 0, 0, 0));
    FAILS(1, cuMemMap(base + MIB, PAGE, 0, handle, 0));
    FAILS(1, set_access(base, PAGE, 3));
    OK(cuMemMap(base, PAGE, 0, handle, 0));
    FAILS(1, cuMemMap(base, PAGE, 0, handle, 0));
    FAILS(1, set_access(base, PAGE, 2));
    FAILS(1, cuMemsetD8_v2(base, 0, 16));
    OK(cuMemUnmap(base, PAGE));
    FAILS(1, cuMemUnmap(base, PAGE));
    OK(cuMemRelease(handle));
    OK(cuMemAlloc_v2(&base, PAGE));
    FAILS(1, cuMemUnmap(base, 2 * PAGE));
    OK(cuMemFree_v2(base));
}

int main(int argc, char **arguments) {
    Handle context;
    const char *mode = argc > 2 ? arguments[2] : "";
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, arguments[1]));
    OK(cuModuleGetFunction(&vecadd, module, "vecadd"));
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], 1));
    int supported;
    OK(cuDeviceGetAttribute(&supported, 102, 0));
    HOLDS(supported == 1);

    Address base = reserve(4 * PAGE), alias = base + 2 * PAGE;
    uint64_t handle = create(PAGE);
    OK(cuMemMap(base, PAGE, 0, handle, 0));
    OK(cuMemMap(alias, PAGE, 0, handle, 0));
    if (strcmp(mode, "access") != 0)
        OK(set_access(base, PAGE, 3));
    OK(set_access(alias, PAGE, strcmp(mode, "readonly") == 0 ? 1 : 3));
    OK(cuMemsetD8_v2(strcmp(mode, "access") == 0 ? alias : base, 0, PAGE));
    OK(cuCtxSynchronize());
    int result = 0;
    if (strcmp(mode, "unmapped") == 0) {
        OK(add(base, base, base + PAGE, 64, streams[0]));
        result = cuCtxSynchronize();
    } else if (strcmp(mode, "access") == 0) {
        OK(add(base, alias, alias, 64, streams[0]));
        result = cuCtxSynchronize();
    } else if (strcmp(mode, "readonly") == 0) {
        // A fill is refused at the call, which keeps the context.
        HOLDS(cuMemsetD8_v2(alias + 16, 0, 64) == 1);
        HOLDS(cuMemsetD8Async(alias, 0, 64, streams[0]) == 1);
        OK(cuMemsetD8_v2(base, 0, 64));
        OK(add(base, base, alias, 64, streams[0]));
        result = cuCtxSynchronize();
    } else if (strcmp(mode, "after") == 0) {
        OK(cuMemUnmap(base, PAGE));
        OK(add(base, alias, alias, 64, streams[0]));
        result = cuCtxSynchronize();
    } else if (strcmp(mode, "in flight") == 0) {
        OK(add(base, base, base, 64, streams[0]));
        OK(cuMemUnmap(base, PAGE));
        OK(cuMemUnmap(alias, PAGE));
        result = cuCtxSynchronize();
    } else if (strcmp(mode, "alias") == 0) {
        OK(cuMemsetD8Async(base, 1, 64, streams[0]));
        OK(cuMemsetD8Async(alias + 32, 2, 64, streams[1]));
        result = cuCtxSynchronize();
    } else {
        OK(cuMemUnmap(base, PAGE));
        OK(cuMemUnmap(alias, PAGE));
        OK(cuMemRelease(handle));
        OK(cuMemAddressFree(base, 4 * PAGE));
        grows_like_a_pool();
        keeps_memory_while_it_is_held_or_mapped();
        if (strcmp(mode, "refused") == 0)
            refuses();
    }
    printf("%d\n", result);
    return 0;
}
