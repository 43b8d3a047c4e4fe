// Every kind of node that graphs have, questions about them, and their changes.
#include "graphs.h"

enum { KERNEL, COPY, FILL, HOST, CHILD, EMPTY, WAIT, RECORD, ALLOCATION = 10, FREE, CONDITIONAL = 13 };

static Handle add, count, stream, other;
static Address word;

static unsigned value(void) {
    unsigned read = 0;
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&read, word, sizeof read));
    return read;
}

static struct KernelNode kernel(Handle function, void **params) {
    struct KernelNode node = {.function = function, .grid = {1, 1, 1}, .block = {1, 1, 1},
                              .params = params};
    return node;
}

static struct FillNode fill(unsigned number) {
    struct FillNode node = {.target = word, .value = number, .element_bytes = 4, .width = 1,
                            .height = 1};
    return node;
}

static void launch(Handle graph) {
    Handle exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
}

static int type(Handle node) {
    int found = -1;
    OK(cuGraphNodeGetType(node, &found));
    return found;
}

// A line of a fill, a kernel and an empty node, and a copy beside them.
static void questions(void) {
    Handle graph, clone, cleared, added, copied, last, nodes[6], ends[6];
    size_t found = 0;
    unsigned three = 3;
    Address back;
    void *params[] = {&word, &three};
    struct FillNode clear = fill(40), read_fill;
    struct KernelNode more = kernel(add, params), read_kernel;
    struct Box box = {.source = {.type = 2}, .target = {.type = 2}, .width_bytes = 4, .height = 1,
                      .depth = 1}, read_box;
    OK(cuMemAlloc_v2(&back, 8));
    box.source.device = back;
    box.target.device = back + 4;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&cleared, graph, NULL, 0, &clear, NULL));
    OK(cuGraphAddKernelNode_v2(&added, graph, &cleared, 1, &more));
    OK(cuGraphAddEmptyNode(&last, graph, &added, 1));
    OK(cuGraphAddMemcpyNode(&copied, graph, NULL, 0, &box, NULL));
    HOLDS(type(cleared) == FILL && type(added) == KERNEL && type(last) == EMPTY &&
          type(copied) == COPY);

    OK(cuGraphGetNodes(graph, NULL, &found));
    HOLDS(found == 4);
    found = 6;
    OK(cuGraphGetNodes(graph, nodes, &found));
    HOLDS(found == 4 && nodes[0] == cleared && nodes[3] == copied && nodes[4] == NULL);
    found = 1;
    OK(cuGraphGetRootNodes(graph, nodes, &found));
    HOLDS(found == 1 && nodes[0] == cleared);
    OK(cuGraphGetEdges(graph, NULL, NULL, &found));
    HOLDS(found == 2);
    uint64_t data[2] = {7, 7};
    OK(cuGraphGetEdges_v2(graph, nodes, ends, data, &found));
    HOLDS(found == 2 && nodes[0] == cleared && ends[0] == added && ends[1] == last && !data[1]);
    FAILS(1, cuGraphGetEdges(graph, nodes, NULL, &found));
    found = 6;
    OK(cuGraphNodeGetDependencies(last, nodes, &found));
    HOLDS(found == 1 && nodes[0] == added);
    OK(cuGraphNodeGetDependentNodes(cleared, NULL, &found));
    HOLDS(found == 1);

    OK(cuGraphKernelNodeGetParams_v2(added, &read_kernel));
    HOLDS(read_kernel.function == add && read_kernel.block[0] == 1);
    HOLDS(*(Address *)read_kernel.params[0] == word && *(unsigned *)read_kernel.params[1] == 3);
    OK(cuGraphMemsetNodeGetParams(cleared, &read_fill));
    HOLDS(read_fill.target == word && read_fill.value == 40 && read_fill.width == 1);
    OK(cuGraphMemcpyNodeGetParams(copied, &read_box));
    HOLDS(read_box.target.device == back + 4 && read_box.width_bytes == 4 && read_box.depth == 1);
    FAILS(1, cuGraphMemcpyNodeGetParams(added, &read_box));

    // Changes of the graph, not of its clone.
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&nodes[0], cleared, clone));
    HOLDS(nodes[0] != cleared && type(nodes[0]) == FILL);
    FAILS(1, cuGraphNodeFindInClone(&nodes[0], cleared, graph));
    OK(cuGraphDestroyNode(copied));
    FAILS(1, cuGraphNodeGetType(copied, &(int){0}));
    clear.value = 50;
    OK(cuGraphMemsetNodeSetParams(cleared, &clear));
    three = 4;
    OK(cuGraphKernelNodeSetParams_v2(added, &read_kernel));
    three = 5;
    OK(cuGraphKernelNodeSetParams_v2(added, &more));
    FAILS(1, cuGraphMemsetNodeSetParams(added, &clear));
    launch(graph);
    HOLDS(value() == 55);
    OK(cuGraphRemoveDependencies(graph, &added, &last, 1));
    FAILS(1, cuGraphRemoveDependencies(graph, &added, &last, 1));
    launch(clone);
    HOLDS(value() == 43);
    OK(cuGraphDebugDotPrint(graph, "/dev/null", 0));
    FAILS(304, cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0));
    OK(cuGraphDestroy(clone));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree_v2(back));
}

static void changes_of_launches(void) {
    Handle graph, exec, cleared;
    uint64_t flags = 9;
    unsigned enabled = 9;
    struct FillNode clear = fill(1);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&cleared, graph, NULL, 0, &clear, NULL));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 8));
    OK(cuGraphExecGetFlags(exec, &flags));
    HOLDS(flags == 0);
    struct AnyNode any = {.type = FILL};
    clear.value = 2;
    memcpy(any.parameters, &clear, sizeof clear);
    OK(cuGraphExecNodeSetParams(exec, cleared, &any));
    OK(cuGraphLaunch(exec, stream));
    HOLDS(value() == 2);
    OK(cuMemsetD32_v2(word, 7, 1));
    OK(cuCtxSynchronize());
    OK(cuGraphNodeSetEnabled(exec, cleared, 0));
    OK(cuGraphNodeGetEnabled(exec, cleared, &enabled));
    HOLDS(enabled == 0);
    OK(cuGraphLaunch(exec, stream));
    HOLDS(value() == 7);
    OK(cuGraphNodeSetEnabled(exec, cleared, 1));
    OK(cuGraphLaunch(exec, stream));
    HOLDS(value() == 2);
    any.type = EMPTY;
    FAILS(1, cuGraphExecNodeSetParams(exec, cleared, &any));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void more_by(void *data) { *(int *)data += 1; }
static void more_by_ten(void *data) { *(int *)data += 10; }

static void host_functions(void) {
    Handle graph, exec, node;
    int calls = 0;
    size_t found = 1;
    struct HostNode one = {more_by, &calls}, ten = {more_by_ten, &calls}, read;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddHostNode(&node, graph, NULL, 0, &one));
    OK(cuGraphHostNodeGetParams(node, &read));
    HOLDS(type(node) == HOST && read.function == more_by && read.data == &calls);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    HOLDS(calls == 2);
    OK(cuGraphExecHostNodeSetParams(exec, node, &ten));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    HOLDS(calls == 12);
    OK(cuGraphHostNodeSetParams(node, &ten));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    // A captured one, in a graph of the program.
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1, LOCAL));
    FAILS(401, cuStreamBeginCaptureToGraph(other, graph, NULL, NULL, 0, LOCAL));
    OK(cuLaunchHostFunc(stream, more_by, &calls));
    OK(cuStreamEndCapture(stream, &exec));
    HOLDS(exec == graph);
    OK(cuGraphNodeGetDependentNodes(node, &node, &found));
    OK(cuGraphHostNodeGetParams(node, &read));
    HOLDS(found == 1 && read.function == more_by);
    launch(graph);
    OK(cuStreamSynchronize(stream));
    HOLDS(calls == 13);
    OK(cuGraphDestroy(graph));
    OK(cuLaunchHostFunc(stream, more_by, &calls));
    OK(cuStreamSynchronize(stream));
    HOLDS(calls == 14);
}

// A graph waits for a stream by one event, and another stream for the graph by another.
static void events(void) {
    Handle graph, waits, records, added, before, after, found;
    unsigned one = 1;
    void *params[] = {&word, &one};
    struct KernelNode more = kernel(add, params);
    OK(cuEventCreate(&before, 2));
    OK(cuEventCreate(&after, 2));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventWaitNode(&waits, graph, NULL, 0, after));
    OK(cuGraphEventWaitNodeSetEvent(waits, before));
    OK(cuGraphEventWaitNodeGetEvent(waits, &found));
    HOLDS(found == before && type(waits) == WAIT);
    OK(cuGraphAddKernelNode_v2(&added, graph, &waits, 1, &more));
    OK(cuGraphAddEventRecordNode(&records, graph, &added, 1, after));
    OK(cuGraphEventRecordNodeGetEvent(records, &found));
    HOLDS(found == after && type(records) == RECORD);
    FAILS(1, cuGraphAddEventWaitNode(&waits, graph, NULL, 0, NULL));
    OK(cuMemsetD32Async(word, 10, 1, other));
    OK(cuEventRecord(before, other));
    launch(graph);
    OK(cuStreamWaitEvent(other, after, 0));
    OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, other, params, NULL));
    OK(cuStreamSynchronize(other));
    HOLDS(value() == 12);
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy_v2(before));
    OK(cuEventDestroy_v2(after));
}

static void memory(void) {
    Handle graph, made, filled, added, freed;
    uint64_t used = 1;
    Address pointer;
    struct AllocationNode node = {.type = 1, .location = {1, 0}, .bytes = 64}, read;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &node));
    HOLDS(type(made) == ALLOCATION && node.pointer);
    OK(cuGraphMemAllocNodeGetParams(made, &read));
    HOLDS(read.pointer == node.pointer && read.bytes == 64 && read.location.type == 1);
    struct FillNode clear = fill(3);
    clear.target = node.pointer;
    OK(cuGraphAddMemsetNode(&filled, graph, &made, 1, &clear, NULL));
    struct Box box = {.source = {.type = 2, .device = node.pointer},
                      .target = {.type = 2, .device = word},
                      .width_bytes = 4, .height = 1, .depth = 1};
    OK(cuGraphAddMemcpyNode(&added, graph, &filled, 1, &box, NULL));
    OK(cuGraphAddMemFreeNode(&freed, graph, &added, 1, node.pointer));
    OK(cuGraphMemFreeNodeGetParams(freed, &pointer));
    HOLDS(pointer == node.pointer && type(freed) == FREE);
    FAILS(1, cuGraphAddMemFreeNode(&freed, graph, NULL, 0, word));
    OK(cuDeviceGetGraphMemAttribute(0, 0, &used));
    HOLDS(used == 64);
    launch(graph);
    HOLDS(value() == 3);
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    OK(cuDeviceGetGraphMemAttribute(0, 0, &used));
    HOLDS(used == 0);
}

// A node with an else branch, and a switch of three.
static void branches(void) {
    unsigned one = 1, ten = 10, hundred = 100;
    unsigned *numbers[] = {&one, &ten, &hundred};
    for (int kind = 0; kind <= 2; kind += 2) {
        unsigned bodies = kind ? 3 : 2;
        for (unsigned initial = 0; initial < bodies; initial++) {
            Handle graph, node;
            uint64_t condition;
            struct FillNode clear = fill(0);
            OK(cuGraphCreate(&graph, 0));
            OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &clear, NULL));
            OK(cuGraphConditionalHandleCreate(&condition, graph, current_context(), initial, 1));
            struct ConditionalNode branch = {.type = CONDITIONAL, .condition = condition,
                                             .kind = kind, .bodies_count = bodies,
                                             .context = current_context()};
            OK(cuGraphAddNode(&node, graph, &node, 1, &branch));
            for (unsigned body = 0; body < bodies; body++) {
                Handle inner;
                void *params[] = {&word, numbers[body]};
                struct KernelNode more = kernel(add, params);
                OK(cuGraphAddKernelNode_v2(&inner, branch.bodies[body], NULL, 0, &more));
            }
            launch(graph);
            unsigned body = kind ? initial : !initial;
            HOLDS(value() == *numbers[body]);
            FAILS(1, cuGraphDestroy(branch.bodies[0]));
            OK(cuGraphDestroy(graph));
        }
    }
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
    questions();
    changes_of_launches();
    host_functions();
    events();
    memory();
    branches();
    OK(cuMemFree_v2(word));
    OK(cuStreamDestroy_v2(other));
    OK(cuStreamDestroy_v2(stream));
    printf("all nodes did\n");
    return 0;
}
