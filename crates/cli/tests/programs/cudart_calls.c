// Calls the runtime API, as a program of nvcc does. The arguments choose the part. For one GPU,
// compile it with -DGPU, beside NVIDIA's library: it goes on after a difference.
#include "cudart.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

// add: p[i] += constant + managed + n. fault: writes to null. matrix: cannot run on the device.
static const char *const code =
    HEAD ".visible .global .align 4 .b8 factor[8] = {5};\n"
    ".visible .const .align 4 .b8 table[4] = {7};\n"
    ".visible .global .attribute(.managed) .align 4 .b8 shared[8] = {1};\n"
    ".visible .entry add(.param .u64 p, .param .u32 n)\n"
    "{ .reg .b64 d; .reg .b32 r<5>; ld.param.u64 d, [p]; ld.param.u32 r0, [n];\n"
    "mov.u32 r1, %tid.x; mad.wide.u32 d, r1, 4, d; ld.global.u32 r2, [factor];\n"
    "add.u32 r0, r0, r2; ld.const.u32 r2, [table]; add.u32 r0, r0, r2;\n"
    "ld.global.u32 r2, [shared]; add.u32 r0, r0, r2; ld.global.u32 r2, [d];\n"
    "add.u32 r2, r2, r0; st.global.u32 [d], r2; ret; }\n"
    ".visible .entry fault() { .reg .b64 d; mov.b64 d, 0; st.global.u32 [d], 1; ret; }\n"
#ifndef GPU // which refuses the whole module
    ".func product() { wgmma.fence.sync.aligned; ret; }\n"
    ".visible .entry matrix() { call product; ret; }\n"
#endif
    "";

static const char *const caller =
    HEAD ".extern .func (.param .b32 r) seven();\n.visible .entry linked(.param .u64 p)\n"
    "{ .reg .b64 d; .reg .b32 n; .param .b32 r; ld.param.u64 d, [p]; call.uni (r), seven, ();\n"
    "ld.param.b32 n, [r]; st.global.u32 [d], n; ret; }\n";
static const char *const called =
    HEAD ".visible .func (.param .b32 r) seven() { st.param.b32 [r], 7; ret; }\n";

// Host addresses that stand for kernels and variables.
static char add, fault, matrix, factor, table, unknown, linked, native;
static int *managed;
static void **image;

__attribute__((constructor)) static void start(void) {
    image = registered(fat_binary(code, 1, 75));
    register_kernel(image, &add, "add");
    register_kernel(image, &fault, "fault");
#ifndef GPU
    register_kernel(image, &matrix, "matrix");
#endif
    __cudaRegisterVar(image, &factor, &factor, "factor", 0, 8, 0, 0);
    __cudaRegisterVar(image, &table, &table, "table", 0, 4, 1, 0);
    __cudaRegisterManagedVar(image, (void **)&managed, (char *)&managed, "shared", 0, 8, 0, 0);
    __cudaRegisterFatBinaryEnd(image);
    // Two objects to be linked, and the device runtime library, whose PTX is for newer devices.
    static void *parts[4];
    parts[0] = fat_binary(caller, 1, 75);
    parts[1] = fat_binary(called, 1, 75);
    parts[2] = fat_binary(HEAD "// __cudaCDP2LaunchDevice\n", 1, 121);
    register_kernel(registered_list(parts), &linked, "linked");
    register_kernel(registered(fat_binary("machine code", 2, 75)), &native, "native");
}

static int launch(void *memory, int number, Handle stream) {
    void *arguments[] = {&memory, &number};
    Dim3 block = {4, 1, 1}, grid, of_block;
    size_t bytes;
    Handle kernel, of_launch;
    if (__cudaPushCallConfiguration(one, block, 0, stream))
        return -1;
    if (__cudaGetKernel(&kernel, &add))
        return -2;
    OK(__cudaPopCallConfiguration(&grid, &of_block, &bytes, &of_launch));
    return __cudaLaunchKernel(kernel, grid, of_block, arguments, bytes, of_launch);
}

static void kernels_and_variables(void) {
    int numbers[4] = {0}, value = 6;
    void *memory, *address, *missing;
    size_t bytes;
    OK(cudaMalloc(&memory, 16));
    OK(cudaMemset(memory, 0, 16));
    OK(launch(memory, 100, NULL));
    OK(cudaMemcpy(numbers, memory, 16, 2));
    CHECK(numbers[0] == 113 && numbers[3] == 113);
    OK(cudaMemcpyToSymbol(&factor, &value, 4, 0, 1));
    OK(cudaMemcpyToSymbol(&table, &value, 4, 0, 1));
    CHECK(__cudaInitModule(image) == 1 && *managed == 1);
    *managed = 1000;
    OK(launch(memory, 0, NULL));
    OK(cudaMemcpy(numbers, memory, 16, 4));
    CHECK(numbers[1] == 113 + 1012);
    OK(cudaMemcpyFromSymbol(&value, &factor, 4, 0, 2));
    CHECK(value == 6);
    OK(cudaGetSymbolAddress(&address, &factor));
    OK(cudaGetSymbolSize(&bytes, &factor));
    CHECK(bytes == 8);
    OK(cudaGetSymbolAddress(&address, managed));
    CHECK(address == managed);
    FAILS(1, cudaMemcpyToSymbol(&factor, &value, 4, 8, 1));
    FAILS(1, cudaMemcpyToSymbol(&factor, &value, 4, SIZE_MAX, 1));
    FAILS(13, cudaMemcpyToSymbol(&unknown, &value, 4, 0, 1));
    FAILS(13, cudaGetSymbolAddress(&missing, &unknown));
    FAILS(21, cudaMemcpyToSymbol(&factor, &value, 4, 0, 2));
    FAILS(400, cudaLaunchKernel(&unknown, one, one, NULL, 0, NULL));
#ifndef GPU
    FAILS(400, cudaLaunchCooperativeKernel(&unknown, one, one, NULL, 0, NULL));
    // Arguments that throw leave their configurations behind.
    for (int i = 0; i < 40; i++)
        CHECK(!__cudaPushCallConfiguration(one, one, 0, NULL));
    OK(launch(memory, -1013, NULL));
    for (int i = 0; i < 40; i++)
        OK(__cudaPopCallConfiguration(&(Dim3){0}, &(Dim3){0}, &bytes, &address));
#endif
#ifndef GPU
    FAILS(218, cudaLaunchKernel(&matrix, one, one, NULL, 0, NULL));
#endif
    void *arguments[] = {&memory};
    OK(cudaLaunchKernel(&linked, one, one, arguments, 0, NULL));
    OK(cudaMemcpy(numbers, memory, 4, 2));
    CHECK(numbers[0] == 7);
    FAILS(209, cudaLaunchKernel(&native, one, one, NULL, 0, NULL));
    FAILS(52, __cudaPopCallConfiguration(NULL, NULL, NULL, NULL));
    OK(cudaFree(memory));
}

static void memory(void) {
    void *empty = &empty, *host, *pitched, *shared;
    size_t pitch, free_bytes, total;
    Pitched cube;
    Extent size = {6, 2, 2};
    char rows[2][5], back[2][5] = {{0}}, box[2][3][6] = {{{0}}};
    struct { int kind, device; void *on_device, *on_host; long reserved[8]; } known;
    OK(cudaMalloc(&empty, 0));
    CHECK(empty == NULL);
    OK(cudaFree(NULL));
    OK(cudaFreeHost(NULL));
    FAILS(1, cudaMalloc(NULL, 4));
    FAILS(2, cudaMalloc(&empty, (size_t)1 << 40));
    FAILS(1, cudaFree(rows));
    OK(cudaMallocHost(&host, 64));
    OK(cudaMallocManaged(&shared, 64, 1));
    empty = &empty;
    OK(cudaMallocManaged(&empty, 0, 1));
    OK(cudaMallocPitch(&pitched, &pitch, 5, 2));
    CHECK(pitch >= 5 && pitch % 4 == 0);
    for (int i = 0; i < 10; i++)
        ((char *)rows)[i] = i;
    OK(cudaMemcpy2D(pitched, pitch, rows, 5, 5, 2, 1));
    OK(cudaMemcpy2D(back, 5, pitched, pitch, 5, 2, 2));
    CHECK(!memcmp(rows, back, 10));
    FAILS(12, cudaMemcpy2D(back, 4, pitched, pitch, 5, 2, 2));
    FAILS(21, cudaMemcpy2D(back, 5, pitched, pitch, 5, 2, 9));
    OK(cudaMemcpy2D(back, 5, pitched, pitch, 0, 2, 2));
    OK(cudaMalloc3D(&cube, size));
    OK(cudaMemset3D(cube, 3, size));
    OK(cudaMemset3D(cube, 9, (Extent){0, 2, SIZE_MAX}));
    Box copied = {.source = cube, .target = {box, 6, 6, 3}, .extent = size, .kind = 2};
    OK(cudaMemcpy3D(&copied));
    CHECK(box[1][1][5] == 3 && box[0][2][0] == 0);
    OK(cudaPointerGetAttributes(&known, pitched));
    CHECK(known.kind == 2 && known.device == 0 && known.on_device == pitched && !known.on_host);
    OK(cudaPointerGetAttributes(&known, (char *)host + 8));
    CHECK(known.kind == 1 && known.on_host == (char *)host + 8);
    OK(cudaPointerGetAttributes(&known, shared));
    CHECK(known.kind == 3 && known.on_host == shared && known.on_device == shared);
    OK(cudaPointerGetAttributes(&known, rows));
    CHECK(known.kind == 0 && known.device == -2 && !known.on_device);
    OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes < total);
    FAILS(21, cudaMemcpy(host, rows, 4, 5));
    OK(cudaMemcpy(host, rows, 0, 0));
    int location[2] = {1, 0};
    uint64_t word;
    memcpy(&word, location, 8);
    if (MAJOR == 12)
        OK(cudaMemPrefetchAsync(shared, (size_t)64, 0, NULL));
    else
        OK(cudaMemPrefetchAsync(shared, (size_t)64, word, 0, NULL));
    OK(cudaFreeHost(host));
    OK(cudaFree(shared));
    OK(cudaFree(pitched));
    OK(cudaFree(cube.address));
}

// Copies of consecutive bytes take the rows of an array one behind the other.
static void arrays(void) {
    int words[5] = {32, 0, 0, 0, 2}, numbers[12], back[12] = {0};
    size_t width;
    Handle array, other;
    for (int i = 0; i < 12; i++)
        numbers[i] = i + 1;
    OK(cudaMallocArray(&array, words, 3, 4, 0));
    OK(cudaMallocArray(&other, words, 4, 3, 0));
    OK(cudaMemcpyToArray(array, 0, 0, numbers, 48, 1));
    OK(cudaMemcpyToArrayAsync(array, 8, 0, &numbers[7], 20, 1, NULL));
    OK(cudaMemcpyArrayToArray(other, 4, 0, array, 0, 0, 44, 3));
    OK(cudaMemcpyToArray(other, 0, 0, numbers, 4, 1));
    OK(cudaMemcpyFromArray(back, other, 0, 0, 48, 2));
    int right[12] = {1, 1, 2, 8, 9, 10, 11, 12, 8, 9, 10, 11};
    CHECK(!memcmp(back, right, 48));
    OK(cudaMemcpyFromArray(back, array, 8, 3, 4, 2));
    CHECK(back[0] == 12);
    OK(cudaMemcpyFromArray(back, array, 12, 0, 4, 2));
    CHECK(back[0] == 9);
    FAILS(1, cudaMemcpyToArray(array, 0, 3, numbers, 16, 1));
    FAILS(21, cudaMemcpyToArray(array, 0, 0, numbers, 4, 9));
    FAILS(12, cudaMemcpy2DToArray(array, 0, 0, numbers, 8, 12, 2, 1));
    FAILS(12, cudaMemcpy2DFromArray(back, 8, array, 0, 0, 12, 2, 2));
    OK(cudaMemcpy2DFromArray(back, 8, array, 0, 0, 0, 2, 2));
    OK(cudaDeviceGetTexture1DLinearMaxWidth(&width, words, 0));
    CHECK(width >= 1 << 27);
    FAILS(101, cudaDeviceGetTexture1DLinearMaxWidth(&width, words, 7));
    OK(cudaFreeArray(array));
    OK(cudaFreeArray(other));
}

static void count(void *data) { ++*(int *)data; }

static void streams_and_graphs(void) {
    Handle stream, event, later, graph, nodes[3], executable;
    void *memory;
    int numbers[4], calls = 0;
    float elapsed;
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaEventCreate(&later));
    OK(cudaMallocAsync(&memory, 16, stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaLaunchHostFunc(stream, count, &calls));
    OK(cudaEventRecord(later, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(calls == 1);
    OK(cudaEventElapsedTime(&elapsed, event, later));
    OK(cudaStreamQuery(stream));
    FAILS(400, cudaEventElapsedTime(&elapsed, event, NULL));
#ifndef GPU // whose driver reads the memory
    FAILS(400, cudaStreamSynchronize((Handle)0x1234));
#endif
    OK(cudaStreamBeginCapture(stream, 0));
    int status = 0;
    unsigned long long id;
    if (MAJOR == 12)
        OK(cudaStreamGetCaptureInfo(stream, &status, &id));
    else
        OK(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
    CHECK(status == 1);
    OK(launch(memory, 1, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, 0));
    OK(cudaStreamEndCapture(stream, NULL));
    int number = -7 - 7 - 1000;
    void *arguments[] = {&memory, &number};
    struct { void *function; Dim3 grid, block; unsigned bytes; void **arguments, **extra; }
        kernel = {&add, one, {4, 1, 1}, 0, arguments, NULL}, known;
    struct { void *address; size_t pitch; unsigned value, element; size_t width, height; }
        fill = {memory, 0, 9, 4, 4, 1};
    Box copied;
    OK(cudaGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &fill));
    OK(cudaGraphAddKernelNode(&nodes[1], graph, NULL, 0, &kernel));
    if (MAJOR == 12)
        OK(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], (size_t)1));
    else
        OK(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], NULL, (size_t)1));
    OK(cudaGraphAddMemcpyNode1D(&nodes[2], graph, &nodes[1], 1, numbers, memory, 16, 2));
    uint64_t any[32] = {0};
    any[2] = (uint64_t)&add;
    memcpy(&any[3], &one, 12);
    memcpy((char *)&any[3] + 12, &one, 12);
    any[7] = (uint64_t)arguments;
    Handle node;
    if (MAJOR == 12)
        OK(cudaGraphAddNode(&node, graph, &nodes[2], (size_t)1, any));
    else
        OK(cudaGraphAddNode(&node, graph, &nodes[2], NULL, (size_t)1, any));
    // A copy and a fill by the same function; what the fill leaves is 4 times 9.
    uint64_t sent[32] = {1}, filled[32] = {2};
    copied = (Box){.source = {memory, 16, 16, 1}, .target = {numbers, 16, 16, 1},
                   .extent = {16, 1, 1}, .kind = 2};
    memcpy(&sent[4], &copied, sizeof copied);
    memcpy(&filled[2], &fill, sizeof fill);
    if (MAJOR == 12) {
        OK(cudaGraphAddNode(&node, graph, &node, (size_t)1, filled));
        OK(cudaGraphAddNode(&node, graph, &node, (size_t)1, sent));
    } else {
        OK(cudaGraphAddNode(&node, graph, &node, NULL, (size_t)1, filled));
        OK(cudaGraphAddNode(&node, graph, &node, NULL, (size_t)1, sent));
    }
    OK(cudaGraphKernelNodeGetParams(nodes[1], &known));
    CHECK(known.function == &add && known.block.x == 4);
    OK(cudaGraphMemcpyNodeGetParams(nodes[2], &copied));
    CHECK(copied.source.address == memory && copied.kind == 2 && copied.extent.width == 16);
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(numbers[0] == 9 && numbers[3] == 9);
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaFreeAsync(memory, stream));
    OK(cudaEventDestroy(event));
    OK(cudaEventDestroy(later));
    OK(cudaStreamDestroy(stream));
}

static void functions(void) {
    struct { size_t shared, constant, local; int threads, registers, ptx, binary, rest[32]; } of;
    struct { Dim3 grid, block; size_t bytes; Handle stream; void *attributes; unsigned count; }
        configuration = {one, one, 0, NULL, NULL, 0};
    const char *name;
    int blocks;
    void *memory, *arguments[2], *driver;
    int number = 1;
    OK(cudaMalloc(&memory, 16));
    arguments[0] = &memory;
    arguments[1] = &number;
    OK(cudaFuncGetAttributes(&of, &add));
    CHECK(of.threads == 1024 && of.shared == 0 && of.registers > 0);
    OK(cudaFuncSetAttribute(&add, 8, 65536));
    FAILS(98, cudaFuncSetAttribute(&unknown, 8, 65536));
    OK(cudaFuncGetName(&name, &add));
    CHECK(!strcmp(name, "add"));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, &add, 128, 0, 0));
    CHECK(blocks > 0);
    OK(cudaMemset(memory, 0, 16));
    OK(cudaLaunchKernelExC(&configuration, &add, arguments));
    OK(cudaLaunchCooperativeKernel(&add, one, one, arguments, 0, NULL));
    OK(cudaLaunchKernel_ptsz(&add, one, one, arguments, 0, (Handle)1));
    FAILS(720, cudaLaunchCooperativeKernel(&add, (Dim3){1 << 20, 1, 1}, one, arguments, 0, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &driver, 12000, 0, &number));
    CHECK(driver && number == 0);
    FAILS(500, cudaGetDriverEntryPointByVersion("cuNever", &driver, 12000, 0, NULL));
    OK(cudaFree(memory));
}

static void devices(void) {
    enum { BYTES = MAJOR == 12 ? 1032 : 1008 };
    unsigned char properties[1040];
    int value, processors, major;
    unsigned flags;
    size_t bytes, total;
    OK(cudaGetDeviceCount(&value));
#ifdef GPU
    return;
#endif
    CHECK(value == 2);
    OK(cudaGetDevice(&value));
    CHECK(value == 0);
    FAILS(101, cudaSetDevice(2));
    FAILS(101, cudaSetDevice(-1));
    memset(properties, 0xee, sizeof properties);
    OK((MAJOR == 12 ? cudaGetDeviceProperties_v2 : cudaGetDeviceProperties)(properties, 1));
    CHECK(properties[BYTES] == 0xee && properties[BYTES - 1] == 0);
    CHECK(strstr((char *)properties, "H200"));
    memcpy(&total, properties + 288, 8);
    memcpy(&major, properties + 360, 4);
    memcpy(&processors, properties + (MAJOR == 12 ? 388 : 384), 4);
    CHECK(total == (size_t)2 << 30 && major == 9);
    OK(cudaDeviceGetAttribute(&value, 16, 0));
    CHECK(value == processors);
    FAILS(101, cudaDeviceGetAttribute(&value, 16, 7));
    OK(cudaSetDeviceFlags(4));
    OK(cudaGetDeviceFlags(&flags));
    CHECK(flags == (4 | 8));
    OK(cudaDeviceSetLimit(2, 1 << 24));
    OK(cudaDeviceGetLimit(&bytes, 2));
    CHECK(bytes == 1 << 24);
    OK(cudaRuntimeGetVersion(&value));
    CHECK(value / 1000 == MAJOR);
    void *here, *there;
    char sent[4] = "abc", received[4] = "";
    OK(cudaMalloc(&here, 4));
    OK(cudaMemcpy(here, sent, 4, 1));
    OK(cudaDeviceSynchronize());
    OK(cudaDeviceCanAccessPeer(&value, 0, 1));
    CHECK(value == 1);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    FAILS(704, cudaDeviceEnablePeerAccess(1, 0));
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&there, 4));
    OK(cudaMemcpyPeer(there, 1, here, 0, 4));
    OK(cudaMemcpy(received, there, 4, 2));
    CHECK(!strcmp(received, "abc"));
    OK(cudaFree(there));
    OK(cudaSetDevice(0));
    OK(cudaDeviceDisablePeerAccess(1));
    OK(cudaFree(here));
    FAILS(801, cudaIpcGetMemHandle(properties, here));
}

static void errors(void) {
    void *memory;
    Dim3 none = {0, 1, 1}, wide = {2048, 1, 1}, deep = {1, 1, 65};
    CHECK(!strcmp(cudaGetErrorName(9), "cudaErrorInvalidConfiguration"));
    CHECK(!strcmp(cudaGetErrorString(9), "invalid configuration argument"));
    CHECK(!strcmp(cudaGetErrorString(700), "an illegal memory access was encountered"));
    CHECK(!strcmp(cudaGetErrorString(12345), "unrecognized error code"));
    int number = 0;
    void *arguments[] = {&memory, &number};
    FAILS(9, cudaLaunchKernel(&add, none, one, arguments, 0, NULL));
    FAILS(9, cudaLaunchKernel(&add, one, wide, arguments, 0, NULL));
    FAILS(9, cudaLaunchKernel(&add, one, deep, arguments, 0, NULL));
    FAILS(9, cudaPeekAtLastError());
    OK(cudaMalloc(&memory, 4));
    FAILS(9, cudaGetLastError());
    OK(cudaGetLastError());
    OK(cudaLaunchKernel(&fault, one, one, NULL, 0, NULL));
    FAILS(700, cudaDeviceSynchronize());
    FAILS(700, cudaGetLastError());
    OK(cudaGetLastError());
    FAILS(700, cudaFree(memory));
    OK(cudaDeviceReset());
    FAILS(700, cudaGetLastError());
#ifdef GPU // where later allocations fail with 46
    return;
#endif
    OK(cudaMalloc(&memory, 16));
    OK(cudaMemset(memory, 0, 16));
    OK(launch(memory, 1, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaFree(memory));
}

// A kernel on a stream that does not wait for the copy before it, and then an end without `exit`.
static void race(const char *end) {
    Handle stream;
    void *memory;
    int numbers[4] = {0};
    OK(cudaMalloc(&memory, 16));
    OK(cudaStreamCreateWithFlags(&stream, 1));
    OK(cudaMemset(memory, 0, 16));
    OK(launch(memory, 1, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(numbers, memory, 16, 2));
    if (!strcmp(end, "abort"))
        abort();
    if (!strcmp(end, "_exit"))
        _exit(0);
    if (!strcmp(end, "signal"))
        raise(SIGKILL);
}

// The driver works in a forked process only if its parent has not used it.
static void forked(int first) {
    int status;
    void *memory;
    if (first)
        OK(cudaMalloc(&memory, 16));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (first)
            FAILS(3, cudaMalloc(&memory, 16));
        else
            kernels_and_variables();
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    if (!first)
        kernels_and_variables();
}

int main(int arguments_count, char **arguments) {
    const char *part = arguments_count > 1 ? arguments[1] : "all";
    if (!strcmp(part, "all")) {
        devices();
        kernels_and_variables();
        memory();
        arrays();
        streams_and_graphs();
        functions();
    } else if (!strcmp(part, "errors")) {
        errors();
    } else if (!strcmp(part, "fork")) {
        forked(0);
    } else if (!strcmp(part, "fork-late")) {
        forked(1);
    } else {
        race(part);
    }
    puts("all did");
    return 0;
}
