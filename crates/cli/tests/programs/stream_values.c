// Streams wait for values in memory and write them. With `nobody` nothing writes the value, with
// `unordered` the write has no barrier, with `captured` the operations are nodes of a graph, and
// with `host` the host writes.
#include "driver.h"

enum { GEQ, EQ, AND, NOR, FLUSH = 1 << 30 };

struct Operation {
    unsigned kind, barrier;
    Address address;
    uint64_t value;
    unsigned flags, padding;
    uint64_t reserved[2];
};
int cuStreamWaitValue32_v2(Handle, Address, uint32_t, unsigned);
int cuStreamWaitValue64_v2(Handle, Address, uint64_t, unsigned);
int cuStreamWriteValue32_v2(Handle, Address, uint32_t, unsigned);
int cuStreamWriteValue32(Handle, Address, uint32_t, unsigned);
int cuStreamWriteValue64_v2(Handle, Address, uint64_t, unsigned);
int cuStreamBatchMemOp_v2(Handle, unsigned, struct Operation *, unsigned);
int cuStreamBeginCapture_v2(Handle, int);
int cuStreamEndCapture(Handle, Handle *);
int cuGraphInstantiateWithFlags(Handle *, Handle, uint64_t);
int cuGraphLaunch(Handle, Handle);

static Handle streams[2];
static Address flag, data;

static uint32_t word(Address address) {
    uint32_t value;
    OK(cuMemcpyDtoH_v2(&value, address, 4));
    return value;
}

// The second stream fills the data, and the first one waits for the flag, then copies them.
static void exchange(unsigned write_flags) {
    OK(cuStreamWaitValue32_v2(streams[0], flag, 5, GEQ));
    OK(cuMemcpyDtoDAsync_v2(data + 64, data, 64, streams[0]));
    OK(cuMemsetD32Async(data, 42, 16, streams[1]));
    OK((write_flags ? cuStreamWriteValue32 : cuStreamWriteValue32_v2)(streams[1], flag, 7, write_flags));
    OK(cuCtxSynchronize());
    HOLDS(word(flag) == 7);
    printf("%u\n", word(data + 64));
}

static void meets_every_condition(void) {
    struct { unsigned condition; uint64_t value, written; } rows[] = {
        {GEQ, 5, 5}, {GEQ, 5, 6}, {GEQ, 0xfffffff0, 3}, {EQ, 9, 9}, {AND, 6, 4}, {NOR, 1, 6}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(cuStreamWaitValue32_v2(streams[0], flag, rows[i].value, rows[i].condition));
        OK(cuStreamWriteValue32_v2(streams[1], flag, rows[i].written, 0));
        OK(cuCtxSynchronize());
        uint64_t high = (uint64_t)1 << 40;
        OK(cuStreamWaitValue64_v2(streams[0], flag + 8, high, EQ));
        OK(cuStreamWriteValue64_v2(streams[1], flag + 8, high, 0));
        OK(cuCtxSynchronize());
        OK(cuMemsetD8_v2(flag, 0, 16));
        OK(cuCtxSynchronize());
    }
    struct Operation batch[] = {{.kind = 1, .address = flag, .value = 1, .flags = EQ},
                                {.kind = 6},
                                {.kind = 5, .address = flag + 8, .value = 77}};
    OK(cuStreamBatchMemOp_v2(streams[0], 3, batch, 0));
    OK(cuStreamWriteValue32_v2(streams[1], flag, 1, 0));
    OK(cuCtxSynchronize());
    HOLDS(word(flag + 8) == 77);
    batch[2].kind = 9;
    batch[0].value = 99;
    // None of them is enqueued.
    FAILS(1, cuStreamBatchMemOp_v2(streams[0], 3, batch, 0));
    FAILS(1, cuStreamBatchMemOp_v2(streams[0], 3, NULL, 0));
    FAILS(1, cuStreamBatchMemOp_v2(streams[0], 257, batch, 0));
    FAILS(801, cuStreamWaitValue32_v2(streams[0], flag, 1, FLUSH));
    FAILS(1, cuStreamWaitValue32_v2(streams[0], flag, 1, 4));
    FAILS(1, cuStreamWriteValue32_v2(streams[0], flag, 1, 2));
    FAILS(1, cuStreamWriteValue32_v2(streams[0], flag, 1, 1));
    FAILS(1, cuStreamWriteValue32_v2(streams[0], flag + 2, 1, 0));
    FAILS(1, cuStreamWriteValue64_v2(streams[0], flag + 4, 1, 0));
    FAILS(1, cuStreamWriteValue32_v2(streams[0], 0, 1, 0));
    OK(cuMemsetD8_v2(flag, 0, 16));
    OK(cuCtxSynchronize());
}

int main(int argc, char **arguments) {
    Handle context, graph, exec;
    const char *mode = argc > 1 ? arguments[1] : "";
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], 1));
    OK(cuMemAlloc_v2(&flag, 16));
    OK(cuMemAlloc_v2(&data, 128));
    OK(cuMemsetD8_v2(flag, 0, 16));
    OK(cuCtxSynchronize());
    if (strcmp(mode, "nobody") == 0) {
        OK(cuStreamWaitValue32_v2(streams[0], flag, 5, EQ));
        OK(cuStreamWriteValue32_v2(streams[0], flag, 5, 0));
        printf("%d\n", cuCtxSynchronize());
    } else if (strcmp(mode, "unordered") == 0) {
        exchange(1);
    } else if (strcmp(mode, "host") == 0) {
        volatile uint32_t *mine;
        OK(cuMemHostAlloc((void **)&mine, 4, 0));
        *mine = 0;
        OK(cuStreamWaitValue32_v2(streams[0], (Address)(uintptr_t)mine, 3, EQ));
        OK(cuMemsetD32Async(data, 42, 16, streams[0]));
        *mine = 3;
        OK(cuCtxSynchronize());
        printf("%u\n", word(data));
    } else if (strcmp(mode, "captured") == 0) {
        OK(cuStreamBeginCapture_v2(streams[0], 0));
        OK(cuStreamWaitValue32_v2(streams[0], flag, 5, EQ));
        OK(cuMemsetD32Async(data, 42, 16, streams[0]));
        OK(cuStreamWriteValue32_v2(streams[0], flag, 6, 0));
        OK(cuStreamEndCapture(streams[0], &graph));
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        for (int i = 0; i < 2; i++) {
            OK(cuGraphLaunch(exec, streams[0]));
            OK(cuStreamWriteValue32_v2(streams[1], flag, 5, 0));
            OK(cuCtxSynchronize());
            HOLDS(word(flag) == 6);
        }
        printf("%u\n", word(data));
    } else {
        meets_every_condition();
        exchange(0);
    }
    return 0;
}
