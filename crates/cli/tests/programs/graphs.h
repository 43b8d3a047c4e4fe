// The part of the driver API of graphs that the test programs use, and their kernels.
#include "driver.h"

struct KernelNode {
    Handle function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    Handle kernel, context;
};
struct FillNode {
    Address target;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height;
};
struct ConditionalNode {
    int type, reserved_0[3];
    uint64_t condition;
    int kind;
    unsigned bodies_count;
    Handle *bodies;
    Handle context;
    uint64_t padding[25];
    long long reserved_2;
};
struct HostNode {
    void (*function)(void *);
    void *data;
};
struct Location {
    int type, id;
};
struct AllocationNode {
    int type, handle_types;
    struct Location location;
    void *security;
    size_t max_size;
    unsigned char reserved[56];
    const void *access;
    size_t access_count, bytes;
    Address pointer;
};
struct AnyNode {
    int type, reserved_0[3];
    uint64_t parameters[29];
    long long reserved_2;
};
struct Instantiation {
    uint64_t flags;
    Handle stream, error_node;
    int result;
};
struct Update {
    int result;
    Handle error_node, error_from_node;
};

int cuGraphCreate(Handle *, unsigned);
int cuGraphDestroy(Handle);
int cuGraphClone(Handle *, Handle);
int cuGraphAddKernelNode_v2(Handle *, Handle, const Handle *, size_t, const struct KernelNode *);
int cuGraphAddMemsetNode(Handle *, Handle, const Handle *, size_t, const struct FillNode *, Handle);
int cuGraphAddMemcpyNode(Handle *, Handle, const Handle *, size_t, const struct Box *, Handle);
int cuGraphAddChildGraphNode(Handle *, Handle, const Handle *, size_t, Handle);
int cuGraphAddEmptyNode(Handle *, Handle, const Handle *, size_t);
int cuGraphAddDependencies(Handle, const Handle *, const Handle *, size_t);
int cuGraphConditionalHandleCreate(uint64_t *, Handle, Handle, unsigned, unsigned);
int cuGraphAddNode(Handle *, Handle, const Handle *, size_t, struct ConditionalNode *);
int cuGraphInstantiateWithFlags(Handle *, Handle, unsigned long long);
int cuGraphInstantiateWithParams(Handle *, Handle, struct Instantiation *);
int cuGraphExecDestroy(Handle);
int cuGraphLaunch(Handle, Handle);
int cuGraphUpload(Handle, Handle);
int cuGraphExecKernelNodeSetParams_v2(Handle, Handle, const struct KernelNode *);
int cuGraphExecMemsetNodeSetParams(Handle, Handle, const struct FillNode *, Handle);
int cuGraphExecUpdate_v2(Handle, Handle, struct Update *);
int cuStreamBeginCapture_v2(Handle, int);
int cuStreamEndCapture(Handle, Handle *);
int cuStreamGetCaptureInfo_v2(Handle, int *, uint64_t *, Handle *, const Handle **, size_t *);
int cuStreamUpdateCaptureDependencies(Handle, Handle *, size_t, unsigned);
int cuThreadExchangeStreamCaptureMode(int *);
int cuUserObjectCreate(Handle *, void *, void (*)(void *), unsigned, unsigned);
int cuUserObjectRetain(Handle, unsigned);
int cuUserObjectRelease(Handle, unsigned);
int cuGraphRetainUserObject(Handle, Handle, unsigned, unsigned);

int cuGraphAddHostNode(Handle *, Handle, const Handle *, size_t, const struct HostNode *);
int cuGraphAddEventRecordNode(Handle *, Handle, const Handle *, size_t, Handle);
int cuGraphAddEventWaitNode(Handle *, Handle, const Handle *, size_t, Handle);
int cuGraphAddMemAllocNode(Handle *, Handle, const Handle *, size_t, struct AllocationNode *);
int cuGraphAddMemFreeNode(Handle *, Handle, const Handle *, size_t, Address);
int cuGraphGetNodes(Handle, Handle *, size_t *);
int cuGraphGetRootNodes(Handle, Handle *, size_t *);
int cuGraphGetEdges(Handle, Handle *, Handle *, size_t *);
int cuGraphGetEdges_v2(Handle, Handle *, Handle *, uint64_t *, size_t *);
int cuGraphNodeGetDependencies(Handle, Handle *, size_t *);
int cuGraphNodeGetDependentNodes(Handle, Handle *, size_t *);
int cuGraphNodeGetType(Handle, int *);
int cuGraphNodeFindInClone(Handle *, Handle, Handle);
int cuGraphDestroyNode(Handle);
int cuGraphRemoveDependencies(Handle, const Handle *, const Handle *, size_t);
int cuGraphKernelNodeGetParams_v2(Handle, struct KernelNode *);
int cuGraphKernelNodeSetParams_v2(Handle, const struct KernelNode *);
int cuGraphMemcpyNodeGetParams(Handle, struct Box *);
int cuGraphMemsetNodeGetParams(Handle, struct FillNode *);
int cuGraphMemsetNodeSetParams(Handle, const struct FillNode *);
int cuGraphHostNodeGetParams(Handle, struct HostNode *);
int cuGraphHostNodeSetParams(Handle, const struct HostNode *);
int cuGraphExecHostNodeSetParams(Handle, Handle, const struct HostNode *);
int cuGraphEventRecordNodeGetEvent(Handle, Handle *);
int cuGraphEventWaitNodeGetEvent(Handle, Handle *);
int cuGraphEventWaitNodeSetEvent(Handle, Handle);
int cuGraphMemAllocNodeGetParams(Handle, struct AllocationNode *);
int cuGraphMemFreeNodeGetParams(Handle, Address *);
int cuGraphNodeSetEnabled(Handle, Handle, unsigned);
int cuGraphNodeGetEnabled(Handle, Handle, unsigned *);
int cuGraphNodeSetParams(Handle, struct AnyNode *);
int cuGraphExecNodeSetParams(Handle, Handle, struct AnyNode *);
int cuGraphExecGetFlags(Handle, uint64_t *);
int cuGraphDebugDotPrint(Handle, const char *, unsigned);
int cuStreamBeginCaptureToGraph(Handle, Handle, const Handle *, const void *, size_t, int);
int cuDeviceGetGraphMemAttribute(int, int, void *);
int cuDeviceGraphMemTrim(int);

enum { GLOBAL, LOCAL, RELAXED };

static Handle current_context(void) {
    Handle context = NULL;
    cuCtxGetCurrent(&context);
    return context;
}

// `add` adds to a word. `count` decrements a word and sets the condition to the new value.
static const char *const ptx =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry add(.param .u64 word, .param .u32 more)\n{\n"
    ".reg .b32 a, b; .reg .b64 w;\n"
    "ld.param.u64 w, [word]; ld.param.u32 a, [more];\n"
    "ld.global.u32 b, [w]; add.u32 b, b, a; st.global.u32 [w], b; ret;\n}\n"
    ".visible .entry count(.param .u64 word, .param .u64 condition)\n{\n"
    ".reg .b32 b; .reg .b64 w, c;\n"
    "ld.param.u64 w, [word]; ld.param.u64 c, [condition];\n"
    "ld.global.u32 b, [w]; sub.u32 b, b, 1; st.global.u32 [w], b;\n"
    "{ .param .b64 handle; .param .b32 value;\n"
    "st.param.b64 [handle], c; st.param.b32 [value], b;\n"
    "call.uni cudaGraphSetConditional, (handle, value); }\nret;\n}\n";
