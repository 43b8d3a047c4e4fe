// Ordinary use of every part of the driver API, with the values that the calls must return.
#include "driver.h"

enum { COUNT = 1024 };
#define PER_THREAD ((Handle)2)

static int called;

static void add_to(void *target) { *(int *)target += 1; }

static void callback(Handle stream, int status, void *target) {
    (void)stream;
    *(int *)target = status == 0 ? 7 : -1;
}

static void contexts(void) {
    Handle first, second, primary, found, again;
    unsigned flags;
    int device, active;

    FAILS(201, cuCtxSynchronize());
    OK(cuCtxGetCurrent(&found));
    HOLDS(found == NULL);
    OK(cuCtxCreate_v2(&first, 4, 0));
    OK(cuCtxCreate_v2(&second, 0, 0));
    OK(cuCtxGetCurrent(&found));
    HOLDS(found == second);
    OK(cuCtxPopCurrent_v2(&found));
    HOLDS(found == second);
    OK(cuCtxGetFlags(&flags));
    HOLDS(flags == 4);
    OK(cuCtxGetDevice(&device));
    HOLDS(device == 0);
    OK(cuCtxPushCurrent_v2(second));
    OK(cuCtxDestroy_v2(second));
    OK(cuCtxGetCurrent(&found));
    HOLDS(found == first);
    FAILS(201, cuCtxPushCurrent_v2(second));
    FAILS(201, cuCtxDestroy_v2(second));
    FAILS(1, cuCtxCreate_v2(&second, 3, 0));
    FAILS(101, cuCtxCreate_v2(&second, 0, 1));

    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(!active);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    HOLDS(primary == again && primary != first);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active);
    FAILS(201, cuCtxDestroy_v2(primary));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    FAILS(201, cuDevicePrimaryCtxRelease_v2(0));
    OK(cuCtxSetCurrent(NULL));
    FAILS(201, cuCtxSynchronize());
    FAILS(201, cuCtxDetach(NULL));
    FAILS(201, cuCtxDetach(first));
    OK(cuCtxPushCurrent_v2(first));
    OK(cuCtxDetach(first));
    OK(cuCtxGetCurrent(&found));
    HOLDS(found == NULL);
    FAILS(201, cuCtxDestroy_v2(first));
}

static void streams_and_events(void) {
    Handle stream, lower, event, timed, found, context;
    int least, greatest, priority, capturing, counter = 0;
    float milliseconds;

    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cuStreamCreateWithPriority(&stream, 1, greatest - 5));
    OK(cuStreamGetPriority(stream, &priority));
    HOLDS(priority == greatest);
    OK(cuStreamCreate(&lower, 0));
    FAILS(1, cuStreamCreate(&found, 2));
    OK(cuCtxGetCurrent(&context));
    OK(cuStreamGetCtx(stream, &found));
    HOLDS(found == context);
    OK(cuStreamIsCapturing(stream, &capturing));
    HOLDS(capturing == 0);

    // Attributes: the synchronisation policy, the priority, the domain of memory, no cluster.
    int value[16] = {4}, got[16];
    OK(cuStreamGetAttribute(stream, 3, got));
    HOLDS(got[0] == 1);
    OK(cuStreamSetAttribute(stream, 3, value));
    value[0] = 9;
    FAILS(1, cuStreamSetAttribute(stream, 3, value));
    FAILS(1, cuStreamSetAttribute(stream, 4, value));
    FAILS(1, cuStreamGetAttribute(stream, 3, NULL));
    OK(cuStreamGetAttribute(stream, 8, got));
    HOLDS(got[0] == greatest);
    OK(cuStreamCopyAttributes(lower, stream));
    OK(cuStreamGetAttribute(lower, 3, got));
    HOLDS(got[0] == 4);
    OK(cuStreamGetPriority(lower, &priority));
    HOLDS(priority == greatest);
    OK(cuStreamGetAttribute(PER_THREAD, 9, got));
    HOLDS(got[0] == 0x100);

    OK(cuEventCreate(&event, 2));
    OK(cuEventCreate(&timed, 0));
    OK(cuEventQuery(event));
    OK(cuLaunchHostFunc(stream, add_to, &counter));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(lower, event, 0));
    OK(cuStreamAddCallback(lower, callback, &called, 0));
    OK(cuStreamSynchronize(lower));
    HOLDS(counter == 1 && called == 7);
    OK(cuStreamQuery(stream));
    OK(cuEventSynchronize(event));
    FAILS(400, cuEventElapsedTime(&milliseconds, event, timed));
    OK(cuEventRecord(timed, lower));
    OK(cuEventSynchronize(timed));
    OK(cuEventElapsedTime(&milliseconds, timed, timed));
    HOLDS(milliseconds == 0);
    OK(cuEventDestroy_v2(event));
    FAILS(400, cuEventQuery(event));
    OK(cuEventDestroy_v2(timed));
    OK(cuStreamDestroy_v2(lower));
    FAILS(400, cuStreamSynchronize(lower));
    OK(cuStreamDestroy_v2(stream));
}

static void memory(void) {
    Address plain, rows, base, managed, mapped, pooled, found;
    size_t pitch, size, before, after, total;
    static unsigned char bytes[64 * 100], back[64 * 100];
    unsigned type, flags;
    void *host, *pointer;
    int is_managed;

    OK(cuMemGetInfo_v2(&before, &total));
    HOLDS(total == (size_t)2 << 30 && before <= total);
    OK(cuMemAlloc_v2(&plain, 1 << 20));
    OK(cuMemGetInfo_v2(&after, &total));
    HOLDS(before - after == 1 << 20);
    OK(cuMemGetAddressRange_v2(&base, &size, plain + 1000));
    HOLDS(base == plain && size == 1 << 20);
    OK(cuPointerGetAttribute(&type, 2, plain + 5));
    HOLDS(type == 2);
    FAILS(1, cuPointerGetAttribute(&type, 2, (Address)(uintptr_t)bytes));
    FAILS(2, cuMemAlloc_v2(&found, (size_t)3 << 30));
    FAILS(1, cuMemAlloc_v2(&found, 0));
    FAILS(1, cuMemAlloc_v2(NULL, 16));

    // Rows of 100 bytes, in memory with a pitch.
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    OK(cuMemAllocPitch_v2(&rows, &pitch, 100, 64, 4));
    HOLDS(pitch == 512);
    struct Rows copy = {.source_type = 1, .source_host = bytes, .source_pitch = 100,
                        .target_type = 2, .target_device = rows, .target_pitch = pitch,
                        .width_bytes = 100, .height = 64};
    OK(cuMemcpy2D_v2(&copy));
    struct Rows part = {.source_x = 10, .source_y = 3, .source_type = 4, .source_device = rows,
                        .source_pitch = pitch, .target_type = 1, .target_host = back,
                        .target_pitch = 20, .width_bytes = 20, .height = 5};
    OK(cuMemcpy2DAsync_v2(&part, PER_THREAD));
    OK(cuStreamSynchronize(PER_THREAD));
    for (int row = 0; row < 5; row++)
        HOLDS(memcmp(back + 20 * row, bytes + 100 * (row + 3) + 10, 20) == 0);
    OK(cuMemsetD2D8_v2(rows, pitch, 9, 50, 64));
    OK(cuMemcpyDtoH_v2(back, rows + pitch, 100));
    HOLDS(back[0] == 9 && back[49] == 9 && back[50] == bytes[150]);
    copy.target_pitch = 99;
    FAILS(1, cuMemcpy2D_v2(&copy));
    copy.source_type = 3;
    FAILS(1, cuMemcpy2D_v2(&copy));

    // Page-locked, registered and managed memory.
    OK(cuMemHostAlloc(&host, 4096, 1));
    HOLDS(((unsigned char *)host)[0] == 0);
    OK(cuMemHostGetFlags(&flags, host));
    HOLDS(flags == 3);
    OK(cuMemHostGetDevicePointer_v2(&mapped, host, 0));
    OK(cuPointerGetAttribute(&type, 2, mapped));
    HOLDS(type == 1);
    OK(cuMemsetD8_v2(mapped, 5, 4096));
    HOLDS(((unsigned char *)host)[4095] == 5);
    OK(cuMemcpyHtoDAsync_v2(plain, host, 4096, NULL));
    OK(cuMemcpyDtoH_v2(back, plain, 4096));
    HOLDS(back[4095] == 5);
    OK(cuMemFreeHost(host));
    FAILS(1, cuMemFreeHost(host));
    pointer = malloc(8192);
    OK(cuMemHostRegister_v2(pointer, 8192, 0));
    FAILS(712, cuMemHostRegister_v2(pointer, 8192, 0));
    OK(cuMemHostUnregister(pointer));
    FAILS(713, cuMemHostUnregister(pointer));
    free(pointer);
    OK(cuMemAllocManaged(&managed, 4096, 1));
    HOLDS(*(unsigned char *)(uintptr_t)managed == 0);
    OK(cuPointerGetAttribute(&is_managed, 8, managed));
    HOLDS(is_managed == 1);
    memset((void *)(uintptr_t)managed, 3, 4096);
    OK(cuMemcpy(plain, managed, 4096));
    OK(cuMemcpyDtoD_v2(plain + 8192, plain, 4096));
    OK(cuMemcpyDtoH_v2(back, plain + 8192, 4096));
    HOLDS(back[100] == 3);
    OK(cuMemFree_v2(managed));

    // A batch of copies between two halves and the host.
    Address targets[] = {plain, (Address)(uintptr_t)back}, sources[] = {plain + 512, plain + 1024};
    size_t sizes[] = {256, 256}, starts[] = {0, 1}, failed = 5;
    struct CopyAttributes attributes[] = {{.order = 1}, {.order = 3, .flags = 1}};
    OK(cuMemsetD8Async(plain, 1, 1024, PER_THREAD));
    OK(cuMemsetD8Async(plain + 512, 2, 512, PER_THREAD));
    OK(cuMemsetD8Async(plain + 1024, 6, 512, PER_THREAD));
    OK(cuMemcpyBatchAsync(targets, sources, sizes, 2, attributes, starts, 2, &failed, PER_THREAD));
    HOLDS(failed == SIZE_MAX);
    OK(cuStreamSynchronize(PER_THREAD));
    HOLDS(back[0] == 6 && back[255] == 6);
    targets[1] = plain + 2048;
    OK(cuMemcpyBatchAsync_v2(targets, sources, sizes, 2, attributes, starts, 1, PER_THREAD));
    OK(cuStreamSynchronize(PER_THREAD));
    OK(cuMemcpyDtoH_v2(back, plain, 4096));
    HOLDS(back[255] == 2 && back[256] == 1 && back[2048] == 6);
    FAILS(1, cuMemcpyBatchAsync_v2(targets, sources, sizes, 2, attributes, starts, 2, NULL));
    FAILS(1, cuMemcpyBatchAsync_v2(targets, sources, sizes, 1, attributes, starts, 2, PER_THREAD));
    attributes[0].order = 0;
    FAILS(1, cuMemcpyBatchAsync_v2(targets, sources, sizes, 2, attributes, starts, 2, PER_THREAD));
    attributes[0].order = 1;
    sources[1] = (Address)1 << 50;
    FAILS(1, cuMemcpyBatchAsync(targets, sources, sizes, 2, attributes, starts, 2, &failed, PER_THREAD));
    HOLDS(failed == 1);

    // Memory in stream order.
    OK(cuMemAllocAsync(&pooled, 256, NULL));
    OK(cuMemsetD32Async(pooled, 0x01020304, 64, NULL));
    OK(cuMemcpyDtoHAsync_v2(back, pooled, 256, NULL));
    OK(cuStreamSynchronize(NULL));
    HOLDS(back[0] == 4 && back[255] == 1);
    OK(cuMemFreeAsync(pooled, NULL));
    OK(cuMemFree_v2(rows));
    OK(cuMemFree_v2(plain));
    OK(cuMemFree_v2(0));
    FAILS(1, cuMemFree_v2(plain));
}

static char *text_of(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    HOLDS(file && fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

static size_t twice(int block) { return 2 * (size_t)block; }

static void kernels(const char *path) {
    Handle module, library, kernel, function, of_kernel, found, linker;
    char *ptx = text_of(path), log[200] = "";
    int value, grid, block;
    const char *name;
    size_t offset, size;
    Address memory;
    uint64_t count = COUNT;
    static float sum[COUNT];
    void *image;

    FAILS(218, cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_90\n.address_size 64\n.nothing", 2,
                                  (int[]){5, 6}, (void *[]){log, (void *)sizeof log}));
    HOLDS(strstr(log, "nothing"));
    FAILS(209, cuModuleLoadDataEx(&module, "\177ELF\2\1\1", 0, NULL, NULL));
    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    FAILS(500, cuModuleGetFunction(&function, module, "no_kernel"));
    FAILS(500, cuModuleGetGlobal_v2(&memory, &size, module, "no_variable"));
    OK(cuModuleGetFunction(&function, module, "vecadd"));
    OK(cuFuncGetParamInfo(function, 3, &offset, &size));
    HOLDS(offset == 24 && size == 8);
    FAILS(1, cuFuncGetParamInfo(function, 4, &offset, &size));
    OK(cuFuncGetAttribute(&value, 0, function));
    HOLDS(value == 1024);
    OK(cuFuncSetBlockShape(function, 32, 1, 1));
    FAILS(1, cuFuncSetBlockShape(function, 32, 0, 1));
    FAILS(400, cuFuncSetBlockShape(NULL, 32, 1, 1));
    OK(cuFuncSetAttribute(function, 8, 100000));
    OK(cuFuncGetAttribute(&value, 8, function));
    HOLDS(value == 100000);
    FAILS(1, cuFuncSetAttribute(function, 8, 1000000));
    // The PTX is for sm_75, and compiled for the device.
    OK(cuFuncGetAttribute(&value, 5, function));
    HOLDS(value == 75);
    OK(cuFuncGetAttribute(&value, 6, function));
    HOLDS(value == 90);
    for (int hint = 9; hint < 16; hint++) {
        if (hint >= 10 && hint <= 13)
            continue;
        OK(cuFuncSetAttribute(function, hint, 1));
        OK(cuFuncGetAttribute(&value, hint, function));
        HOLDS(value == 1);
        FAILS(1, cuFuncSetAttribute(function, hint, 101));
    }
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 256, 0));
    HOLDS(value == 8);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 256, 60000));
    HOLDS(value == 3);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, twice, 0, 0));
    HOLDS(block == 1024 && grid == 2 * 132);

    OK(cuMemAlloc_v2(&memory, sizeof sum));
    OK(cuMemsetD32_v2(memory, 0x40000000, COUNT));
    // All arguments in one buffer.
    uint64_t buffer[] = {memory, memory, memory, count};
    size = sizeof buffer;
    void *extra[] = {(void *)1, buffer, (void *)2, &size, NULL};
    OK(cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    size = 31;
    FAILS(1, cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    FAILS(1, cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL));
    FAILS(1, cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    FAILS(1, cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, extra));
    OK(cuMemcpyDtoH_v2(sum, memory, sizeof sum));
    HOLDS(sum[0] == 4 && sum[COUNT - 1] == 4);

    // The same kernel of a library, and of a linked module.
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "vecadd"));
    FAILS(500, cuLibraryGetKernel(&found, library, "no_kernel"));
    OK(cuKernelGetName(&name, kernel));
    HOLDS(strcmp(name, "vecadd") == 0);
    OK(cuKernelGetAttribute(&value, 0, kernel, 0));
    HOLDS(value == 1024);
    OK(cuKernelGetFunction(&of_kernel, kernel));
    HOLDS(of_kernel != function);
    void *params[] = {&memory, &memory, &memory, &count};
    struct Attribute hint = {.id = 8, .value = {1}};
    struct Config config = {{4, 1, 1}, {256, 1, 1}, 0, NULL, &hint, 1};
    OK(cuLaunchKernelEx(&config, kernel, params, NULL));
    // A cluster of two blocks.
    hint.id = 4;
    hint.value[0] = 2;
    FAILS(801, cuLaunchKernelEx(&config, kernel, params, NULL));
    OK(cuMemcpyDtoH_v2(sum, memory, sizeof sum));
    HOLDS(sum[7] == 8);
    OK(cuLibraryGetModule(&found, library));
    FAILS(800, cuModuleUnload(found));
    OK(cuLibraryUnload(library));
    FAILS(400, cuKernelGetFunction(&of_kernel, kernel));
    OK(cuModuleUnload(module));
    FAILS(400, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuLinkCreate_v2(0, NULL, NULL, &linker));
    OK(cuLinkAddData_v2(linker, 1, ptx, strlen(ptx) + 1, "vecadd", 0, NULL, NULL));
    FAILS(801, cuLinkAddData_v2(linker, 3, ptx, strlen(ptx) + 1, "vecadd", 0, NULL, NULL));
    OK(cuLinkComplete(linker, &image, &size));
    OK(cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
    OK(cuLinkDestroy(linker));
    OK(cuModuleGetFunction(&function, module, "vecadd"));
    OK(cuMemFree_v2(memory));
    free(ptx);
}

static void variables(void) {
    static const char *ptx = ".version 8.0\n.target sm_90\n.address_size 64\n"
                             ".const .align 4 .b8 table[80];\n"
                             ".visible .global .align 4 .u32 counter = 7;\n"
                             ".visible .entry nothing() { ret; }\n";
    Handle module, function;
    Address address;
    size_t size;
    int value;

    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cuModuleGetFunction(&function, module, "nothing"));
    OK(cuFuncGetAttribute(&value, 2, function));
    HOLDS(value == 80);
    OK(cuModuleGetGlobal_v2(&address, &size, module, "counter"));
    HOLDS(size == 4);
    OK(cuMemcpyDtoH_v2(&value, address, size));
    HOLDS(value == 7);
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuModuleUnload(module));
}

static void resolution(void) {
    int (*version)(int *), (*synchronize)(void), number, status;
    void *address;

    OK(cuGetProcAddress_v2("cuDriverGetVersion", &address, 12000, 0, &status));
    HOLDS(status == 0);
    memcpy(&version, &address, sizeof address);
    OK(version(&number));
    HOLDS(number == 13050);
    OK(cuGetProcAddress_v2("cuCtxSynchronize", &address, 12000, 0, &status));
    memcpy(&synchronize, &address, sizeof address);
    HOLDS(synchronize == cuCtxSynchronize);
    OK(cuGetProcAddress_v2("cuNoSuchFunction", &address, 12000, 0, &status));
    HOLDS(address == NULL && status == 1);
    OK(cuGetProcAddress_v2("cuLibraryLoadData", &address, 11000, 0, &status));
    HOLDS(address == NULL && status == 2);
    FAILS(500, cuGetProcAddress("cuNoSuchFunction", &address, 12000, 0));
    HOLDS(address == NULL);
    FAILS(1, cuGetProcAddress_v2("cuInit", &address, 99000, 0, &status));
    // Not implemented, and refused by name.
    OK(cuGetProcAddress_v2("cuMipmappedArrayDestroy", &address, 12000, 0, &status));
    int (*refused)(Handle *, unsigned);
    memcpy(&refused, &address, sizeof address);
    FAILS(801, refused(NULL, 0));
    FAILS(801, refused(NULL, 0));
}

int main(int argc, char **arguments) {
    Handle context;
    int count, value, version;
    (void)argc;

    FAILS(3, cuDeviceGetCount(&count));
    OK(cuDriverGetVersion(&version));
    HOLDS(version == 13050);
    FAILS(1, cuInit(1));
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    HOLDS(count == 1);
    OK(cuDeviceGetAttribute(&value, 75, 0));
    HOLDS(value == 9);
    FAILS(1, cuDeviceGetAttribute(&value, 100000, 0));
    FAILS(101, cuDeviceGetAttribute(&value, 1, 1));
    FAILS(1, cuDeviceGetAttribute(NULL, 1, 0));
    contexts();
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    streams_and_events();
    memory();
    kernels(arguments[1]);
    variables();
    resolution();
    OK(cuDevicePrimaryCtxRelease_v2(0));
    FAILS(709, cuCtxSynchronize());
    printf("all calls returned what they must\n");
    return 0;
}
