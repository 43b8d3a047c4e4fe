// Graphs of explicit nodes with a loop, updates of them, and captures of streams.
#include "graphs.h"

static Handle add, count, stream, other;
static Address word, left;

static struct KernelNode kernel(Handle function, void **params) {
    struct KernelNode node = {.function = function, .grid = {1, 1, 1}, .block = {1, 1, 1},
                              .params = params};
    return node;
}

static unsigned value(Address address) {
    unsigned read = 0;
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&read, address, sizeof read));
    return read;
}

static void explicit_nodes(void) {
    Handle graph, same, exec, first, second, loop, inner, last;
    struct Update update;
    unsigned one = 1, ten = 10;
    void *add_one[] = {&word, &one}, *add_ten[] = {&word, &ten};
    struct FillNode clear = {.target = word, .element_bytes = 4, .width = 1, .height = 1};
    struct FillNode five = {.target = left, .value = 5, .element_bytes = 4, .width = 1,
                            .height = 1};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&first, graph, NULL, 0, &clear, NULL));
    OK(cuGraphAddMemsetNode(&second, graph, NULL, 0, &five, NULL));
    uint64_t condition;
    FAILS(201, cuGraphConditionalHandleCreate(&condition, graph, NULL, 1, 1));
    OK(cuGraphConditionalHandleCreate(&condition, graph, current_context(), 1, 1));
    Handle both[] = {first, second};
    struct ConditionalNode repeat = {.type = 13, .condition = condition, .kind = 1,
                                     .bodies_count = 1, .context = current_context()};
    OK(cuGraphAddNode(&loop, graph, both, 2, &repeat));
    struct KernelNode more = kernel(add, add_one);
    OK(cuGraphAddKernelNode_v2(&inner, repeat.bodies[0], NULL, 0, &more));
    void *counted[] = {&left, &condition};
    struct KernelNode down = kernel(count, counted);
    OK(cuGraphAddKernelNode_v2(&last, repeat.bodies[0], &inner, 1, &down));
    struct KernelNode ending = kernel(add, add_ten);
    OK(cuGraphAddKernelNode_v2(&last, graph, &loop, 1, &ending));

    struct Instantiation made = {.flags = 2, .stream = stream};
    OK(cuGraphInstantiateWithParams(&exec, graph, &made));
    for (int round = 0; round < 2; round++) {
        OK(cuGraphLaunch(exec, stream));
        HOLDS(value(word) == 15);
    }
    clear.value = 100;
    OK(cuGraphExecMemsetNodeSetParams(exec, first, &clear, NULL));
    ten = 20;
    OK(cuGraphExecKernelNodeSetParams_v2(exec, last, &ending));
    OK(cuGraphLaunch(exec, stream));
    HOLDS(value(word) == 125);
    FAILS(801, cuGraphClone(&same, graph));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    FAILS(1, cuGraphDestroy(graph));

    // An update from another graph, and a child.
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &more));
    OK(cuGraphClone(&same, graph));
    OK(cuGraphAddChildGraphNode(&second, graph, &first, 1, same));
    OK(cuGraphAddEmptyNode(&last, graph, NULL, 0));
    OK(cuGraphAddDependencies(graph, &second, &last, 1));
    FAILS(1, cuGraphInstantiateWithFlags(&exec, graph, 5));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 1));
    OK(cuMemsetD32_v2(word, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuGraphUpload(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    HOLDS(value(word) == 2);
    FAILS(910, cuGraphExecUpdate_v2(exec, same, &update));
    HOLDS(update.result == 2);
    OK(cuGraphExecUpdate_v2(exec, graph, &update));
    HOLDS(update.result == 0);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(same));
    OK(cuGraphDestroy(graph));
}

static void captures(void) {
    Handle graph, captured, exec, fork, join;
    const Handle *nodes;
    uint64_t id;
    size_t nodes_count;
    int status;
    unsigned one = 1;
    void *params[] = {&word, &one};
    OK(cuEventCreate(&fork, 2));
    OK(cuEventCreate(&join, 2));
    OK(cuStreamBeginCapture_v2(stream, LOCAL));
    FAILS(401, cuStreamBeginCapture_v2(stream, LOCAL));
    OK(cuMemsetD32Async(word, 5, 1, stream));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, other, params, NULL));
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(stream, join, 0));
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &nodes_count));
    HOLDS(status == 1 && nodes_count == 2);
    OK(cuStreamUpdateCaptureDependencies(stream, (Handle *)nodes, nodes_count, 1));
    OK(cuStreamIsCapturing(other, &status));
    HOLDS(status == 1);
    OK(cuStreamEndCapture(stream, &captured));
    HOLDS(captured == graph);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    HOLDS(value(word) == 6);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    // A forbidden call makes a capture invalid, unless the thread's mode allows it.
    Address memory;
    OK(cuStreamBeginCapture_v2(stream, LOCAL));
    FAILS(900, cuMemAlloc_v2(&memory, 64));
    OK(cuStreamIsCapturing(stream, &status));
    HOLDS(status == 2);
    FAILS(901, cuStreamEndCapture(stream, &graph));
    HOLDS(graph == NULL);

    // Modules and libraries stay if a capture forbids to unload them.
    Handle module, library, in_context, function;
    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetModule(&in_context, library));
    OK(cuStreamBeginCapture_v2(stream, LOCAL));
    FAILS(900, cuModuleUnload(module));
    FAILS(901, cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginCapture_v2(stream, LOCAL));
    FAILS(900, cuLibraryUnload(library));
    FAILS(901, cuStreamEndCapture(stream, &graph));
    OK(cuModuleGetFunction(&function, module, "add"));
    OK(cuModuleGetFunction(&function, in_context, "add"));
    OK(cuModuleUnload(module));
    OK(cuLibraryUnload(library));

    int mode = RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == GLOBAL);
    OK(cuStreamBeginCapture_v2(stream, LOCAL));
    OK(cuMemAlloc_v2(&memory, 64));
    OK(cuMemFree_v2(memory));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == RELAXED);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy_v2(fork));
    OK(cuEventDestroy_v2(join));
}

static void destroyed(void *data) { ++*(int *)data; }

// An object lives as long as the program, a graph or an executable graph refers to it.
static void user_objects(void) {
    Handle graph, exec, node, object;
    int calls = 0;
    FAILS(1, cuUserObjectCreate(&object, &calls, destroyed, 1, 0));
    OK(cuUserObjectCreate(&object, &calls, destroyed, 1, 1));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    OK(cuGraphRetainUserObject(graph, object, 1, 0));
    OK(cuUserObjectRetain(object, 2));
    OK(cuUserObjectRelease(object, 2));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuUserObjectRelease(object, 1));
    OK(cuGraphLaunch(exec, stream));
    HOLDS(calls == 0);
    OK(cuGraphExecDestroy(exec));
    OK(cuStreamSynchronize(stream));
    HOLDS(calls == 1);
    FAILS(1, cuUserObjectRelease(object, 1));
}

int main(void) {
    Handle context, module;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&other, 1));
    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&count, module, "count"));
    OK(cuMemAlloc_v2(&word, 4));
    OK(cuMemAlloc_v2(&left, 4));
    explicit_nodes();
    captures();
    user_objects();
    OK(cuMemFree_v2(word));
    OK(cuMemFree_v2(left));
    OK(cuStreamDestroy_v2(other));
    OK(cuStreamDestroy_v2(stream));
    printf("all graphs ran\n");
    return 0;
}
