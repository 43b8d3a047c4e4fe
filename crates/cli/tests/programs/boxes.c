// Copies of boxes between the host and two devices, and access to a peer's memory.
#include "driver.h"

enum { WIDTH = 16, HEIGHT = 8, DEPTH = 4, BYTES = WIDTH * HEIGHT * DEPTH };
enum { HOST = 1, DEVICE = 2, ARRAY = 3, UNIFIED = 4 };

static unsigned char from[BYTES], to[BYTES];

static size_t at(size_t x, size_t y, size_t z) { return (z * HEIGHT + y) * WIDTH + x; }

// Requires that `to` has the bytes of the box that starts at (2, 1, 1), at its own start at (1, 3, 0).
static void box_has_arrived(void) {
    for (size_t z = 0; z < 2; z++)
        for (size_t y = 0; y < 5; y++)
            for (size_t x = 0; x < 7; x++)
                HOLDS(to[at(x + 1, y + 3, z)] == from[at(x + 2, y + 1, z + 1)]);
    HOLDS(to[at(0, 3, 0)] == 0 && to[at(8, 3, 0)] == 0 && to[at(1, 3, 2)] == 0);
}

int main(void) {
    Handle contexts[2], stream;
    Address first, second;
    OK(cuInit(0));
    for (int i = 0; i < 2; i++)
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemAlloc_v2(&second, BYTES));
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemAlloc_v2(&first, BYTES));
    OK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7 + 1);

    // The whole block is dense: one copy. The box is not: a copy for each layer.
    struct Box whole = {
        .source = {.type = HOST, .host = from, .pitch = WIDTH, .height = HEIGHT},
        .target = {.type = DEVICE, .device = first, .pitch = WIDTH, .height = HEIGHT},
        .width_bytes = WIDTH, .height = HEIGHT, .depth = DEPTH};
    OK(cuMemcpy3D_v2(&whole));
    OK(cuMemcpyDtoH_v2(to, first, BYTES));
    HOLDS(memcmp(from, to, BYTES) == 0);

    memset(to, 0, BYTES);
    struct Box box = {
        .source = {.x = 2, .y = 1, .z = 1, .type = DEVICE, .device = first, .pitch = WIDTH,
                   .height = HEIGHT},
        .target = {.x = 1, .y = 3, .type = HOST, .host = to, .pitch = WIDTH, .height = HEIGHT},
        .width_bytes = 7, .height = 5, .depth = 2};
    OK(cuMemcpy3DAsync_v2(&box, stream));
    OK(cuStreamSynchronize(stream));
    box_has_arrived();

    box.target.type = UNIFIED;
    box.target.device = (Address)(uintptr_t)to;
    memset(to, 0, BYTES);
    OK(cuMemcpy3D_v2(&box));
    box_has_arrived();

    box.target.type = ARRAY;
    FAILS(1, cuMemcpy3D_v2(&box));
    box.target.type = HOST;
    box.target.height = 7;
    FAILS(1, cuMemcpy3D_v2(&box));
    box.target.height = HEIGHT;
    box.source.z = SIZE_MAX;
    FAILS(1, cuMemcpy3D_v2(&box));
    FAILS(1, cuMemcpy3D_v2(NULL));
    box.depth = 0;
    box.source.z = 0;
    OK(cuMemcpy3D_v2(&box));

    whole.source = whole.target;
    whole.source.context = contexts[0];
    whole.target.device = second;
    whole.target.context = contexts[1];
    OK(cuMemcpy3DPeer(&whole));
    memset(to, 0, BYTES);
    OK(cuMemcpyDtoH_v2(to, second, BYTES));
    HOLDS(memcmp(from, to, BYTES) == 0);
    // A copy between contexts is serialised with the work of both, and of the current one.
    OK(cuMemsetD8Async(first, 3, BYTES, stream));
    OK(cuCtxSetCurrent(contexts[1]));
    OK(cuMemcpyPeer(second, contexts[1], first, contexts[0], BYTES));
    OK(cuMemsetD8Async(first, 4, BYTES, stream));
    OK(cuMemcpy3DPeer(&whole));
    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuMemcpyDtoH_v2(to, second, BYTES));
    HOLDS(to[0] == 4 && to[BYTES - 1] == 4);
    whole.source.context = stream;
    FAILS(201, cuMemcpy3DPeer(&whole));

    FAILS(705, cuCtxDisablePeerAccess(contexts[1]));
    OK(cuCtxEnablePeerAccess(contexts[1], 0));
    FAILS(704, cuCtxEnablePeerAccess(contexts[1], 0));
    OK(cuCtxDisablePeerAccess(contexts[1]));
    OK(cuCtxEnablePeerAccess(contexts[1], 0));
    printf("all boxes arrived\n");
    return 0;
}
