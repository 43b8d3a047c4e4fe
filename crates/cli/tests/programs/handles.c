// Calls functions with random, stale and wild handles. Each must return, whatever it returns, and
// the memory of the process must not grow: what the program no longer keeps, it destroys.
#include "graphs.h"

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

static Handle primary;

// Makes the primary context current and exchanges the capture mode. Between two calls, neither a
// destroyed context nor a capture forbids to destroy objects.
static void exchange_circumstances(int *mode) {
    static Handle ignored;
    if (*mode == RELAXED)
        cuCtxPushCurrent_v2(primary);
    else
        cuCtxPopCurrent_v2(&ignored);
    cuThreadExchangeStreamCaptureMode(mode);
}

// Destroys the object of a handle, of whichever kind it is.
static void destroy(Handle handle) {
    int mode = RELAXED;
    exchange_circumstances(&mode);
    if (cuStreamDestroy_v2(handle) != 0 && cuEventDestroy_v2(handle) != 0 &&
        cuGraphDestroy(handle) != 0 && cuGraphExecDestroy(handle) != 0 &&
        cuModuleUnload(handle) != 0)
        cuCtxDestroy_v2(handle);
    exchange_circumstances(&mode);
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
    int mode = RELAXED;
    exchange_circumstances(&mode);
    cuMemFree_v2(*place);
    exchange_circumstances(&mode);
    *place = address;
}

// Nodes of graphs, in graphs that are alive or not.
static Handle nodes[KEPT];

static Handle any_node(void) {
    return random_number() % 8 ? nodes[random_number() % KEPT] : any();
}

static int added(int result, Handle node) {
    if (result == 0)
        nodes[random_number() % KEPT] = node;
    return result;
}

static void do_nothing(void *data) { (void)data; }

// Memory that stays: a launch of a graph that misses freed memory would end the context.
static Address permanent;

// Calls a function of graphs. Children are added to new graphs only, so that graphs stay small.
static int graph_call(void) {
    static Handle list[8], ends[8];
    Handle made = NULL, before[2] = {any_node(), any_node()}, function = any();
    Address target = random_number() % 4 ? permanent + random_number() % 64 : permanent | 1ull << 63;
    Address arguments[4] = {target, target, target, 0};
    void *params[] = {&arguments[0], &arguments[1], &arguments[2], &arguments[3]};
    struct KernelNode kernel = {.function = function, .grid = {random_number() % 3, 1, 1},
                                .block = {random_number() % 64, 1, 1}, .params = params};
    struct FillNode fill = {.target = target, .value = 1, .element_bytes = random_number() % 5,
                            .width = random_number() % 128, .height = random_number() % 3};
    struct Box box = {.source = {.type = 2, .device = target}, .target = {.type = 2, .device = permanent + 256},
                      .width_bytes = random_number() % 64, .height = 1, .depth = 1};
    struct HostNode host = {random_number() % 4 ? do_nothing : NULL, NULL};
    struct AllocationNode allocation = {.type = random_number() % 3, .location = {1, 0},
                                        .bytes = random_number() % 4096};
    struct AnyNode other = {.type = (int)(random_number() % 15)};
    struct ConditionalNode branch = {.type = 13, .kind = random_number() % 2 * 2,
                                     .bodies_count = random_number() % 4,
                                     .context = random_number() % 8 ? current_context() : any()};
    struct Update update;
    const Handle *found;
    uint64_t number;
    size_t count = random_number() % 2, room = random_number() % 8;
    int value;
    int capture_mode = (int)(random_number() % 16);
    capture_mode = capture_mode > 3 ? RELAXED : capture_mode;
    switch (random_number() % 44) {
    case 0: value = cuGraphCreate(&made, random_number() % 16 == 0); if (value == 0) keep(made); return value;
    case 1: return cuGraphDestroy(any());
    case 2: value = cuGraphClone(&made, any()); if (value == 0) keep(made); return value;
    case 3: return added(cuGraphAddEmptyNode(&made, any(), before, count), made);
    case 4: return added(cuGraphAddKernelNode_v2(&made, any(), before, count, &kernel), made);
    case 5: return added(cuGraphAddMemsetNode(&made, any(), before, count, &fill, NULL), made);
    case 6: return added(cuGraphAddMemcpyNode(&made, any(), before, count, &box, NULL), made);
    case 7: return added(cuGraphAddHostNode(&made, any(), before, count, &host), made);
    case 8: return added(cuGraphAddEventRecordNode(&made, any(), before, count, any()), made);
    case 9: return added(cuGraphAddEventWaitNode(&made, any(), before, count, any()), made);
    case 10: return added(cuGraphAddMemAllocNode(&made, any(), before, count, &allocation), made);
    case 11: return added(cuGraphAddMemFreeNode(&made, any(), before, count, target), made);
    case 12:
        if (cuGraphCreate(&made, 0) != 0)
            return 1;
        keep(made);
        return cuGraphAddChildGraphNode(&before[0], made, NULL, 0, any());
    case 13: return cuGraphAddDependencies(any(), before, before + 1, 1);
    case 14: return cuGraphRemoveDependencies(any(), before, before + 1, 1);
    case 15: return cuGraphDestroyNode(any_node());
    case 16: return cuGraphGetNodes(any(), list, &room);
    case 17: return cuGraphGetRootNodes(any(), NULL, &room);
    case 18: return cuGraphGetEdges(any(), list, ends, &room);
    case 19: return cuGraphNodeGetDependencies(any_node(), list, &room);
    case 20: return cuGraphNodeGetDependentNodes(any_node(), list, &room);
    case 21: return cuGraphNodeGetType(any_node(), &value);
    case 22: return cuGraphNodeFindInClone(&made, any_node(), any());
    case 23: return cuGraphKernelNodeGetParams_v2(any_node(), &kernel);
    case 24: return cuGraphKernelNodeSetParams_v2(any_node(), &kernel);
    case 25: return cuGraphMemcpyNodeGetParams(any_node(), &box);
    case 26: return cuGraphMemsetNodeSetParams(any_node(), &fill);
    case 27: return cuGraphHostNodeSetParams(any_node(), &host);
    case 28: return cuGraphEventWaitNodeSetEvent(any_node(), any());
    case 29: return cuGraphMemAllocNodeGetParams(any_node(), &allocation);
    case 30: value = cuGraphInstantiateWithFlags(&made, any(), random_number() % 16); if (value == 0) keep(made); return value;
    case 31: return cuGraphExecDestroy(any());
    case 32: return cuGraphLaunch(any(), any());
    case 33: return cuGraphUpload(any(), any());
    case 34: return cuGraphExecKernelNodeSetParams_v2(any(), any_node(), &kernel);
    case 35: return cuGraphExecUpdate_v2(any(), any(), &update);
    case 36: return cuGraphNodeSetEnabled(any(), any_node(), random_number() % 2);
    case 37: return cuGraphNodeSetParams(any_node(), &other);
    case 38: return cuStreamBeginCapture_v2(any(), capture_mode);
    case 39: return cuStreamBeginCaptureToGraph(any(), any(), before, NULL, count, capture_mode);
    case 40: case 41: value = cuStreamEndCapture(any(), &made); if (value == 0) keep(made); return value;
    case 42: return cuStreamGetCaptureInfo_v2(any(), &value, &number, &made, &found, &room);
    default:
        if (cuGraphConditionalHandleCreate(&branch.condition, made = any(), branch.context, random_number() % 4, 1) != 0)
            return cuGraphExecGetFlags(any(), &number);
        value = added(cuGraphAddNode(&before[1], made, before, count, &branch), before[1]);
        if (value == 0)
            keep(branch.bodies[0]);
        return value;
    }
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
    Handle made = NULL;
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
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(cuMemAlloc_v2(&permanent, 4096));
    for (long i = 0; i < calls; i++) {
        int result = 0;
        if (i == calls / 2)
            early = resident();
        Address wild = (Address)(uintptr_t)any();
        if (random_number() % 4 == 0)
            wild = address + random_number() % 8192;
        // A device address, or one that no host memory has.
        wild |= (Address)1 << 48;
        switch (random_number() % 48) {
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
        case 33: result = random_number() % 2 ? cuCtxDetach(any()) : cuCtxDestroy_v2(any()); break;
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
        case 39: result = cuCtxSetCurrent(primary); break;
        default: result = graph_call(); break;
        }
        HOLDS(result >= 0 && result < 1000 && result != 999);
        HOLDS(cuGetErrorName(result, &name) == 0);
        succeeded += result == 0;
    }
    // Captures would forbid the last synchronisation. 2 is the thread's own default stream.
    for (int i = 0; i < KEPT; i++)
        destroy(kept[i]);
    flags = 0;
    OK(cuCtxSetCurrent(primary));
    cuStreamEndCapture((Handle)2, &made);
    OK(cuCtxGetFlags(&flags));
    OK(cuCtxSynchronize());
    long late = resident();
    printf("seed %s: %d of %ld calls succeeded; %ld KiB after half of them, %ld KiB at the end\n",
           arguments[2], succeeded, calls, early, late);
    // Descriptions of the last 65,536 freed allocations are kept, for reports of later uses.
    HOLDS(late < 128 << 10);
    HOLDS(calls < 8000000 || late < early + early / 20 + 4096);
    return succeeded > 0 ? 0 : 3;
}
