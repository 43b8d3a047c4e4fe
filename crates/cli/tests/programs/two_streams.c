// One stream fills an array that a kernel of another stream reads. With the argument `ordered` the
// second stream waits for the first; with `legacy` the fill is on the legacy default stream, for
// which a blocking stream waits by itself; with `nonblocking` it would, but the stream is exempt. With
// `leaky` the second stream waits, and the memory and the streams stay alive.
#include "driver.h"

enum { COUNT = 4096 };

int main(int argc, char **arguments) {
    Handle context, module, add, writer, reader, filled;
    Address memory, sum;
    uint64_t count = COUNT;
    const char *mode = argc > 2 ? arguments[2] : "";
    int blocking = strcmp(mode, "legacy") == 0;
    int on_legacy = blocking || strcmp(mode, "nonblocking") == 0;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, arguments[1]));
    OK(cuModuleGetFunction(&add, module, "vecadd"));
    OK(cuStreamCreate(&writer, 1));
    OK(cuStreamCreate(&reader, blocking ? 0 : 1));
    OK(cuEventCreate(&filled, 2));
    OK(cuMemAlloc_v2(&memory, COUNT * sizeof(float)));
    OK(cuMemAlloc_v2(&sum, COUNT * sizeof(float)));
    OK(cuCtxSynchronize());

    OK(cuMemsetD32Async(memory, 0x3f800000, COUNT, on_legacy ? NULL : writer));
    int leaky = strcmp(mode, "leaky") == 0;
    if (leaky || strcmp(mode, "ordered") == 0) {
        OK(cuEventRecord(filled, writer));
        OK(cuStreamWaitEvent(reader, filled, 0));
    }
    void *params[] = {&memory, &memory, &sum, &count};
    OK(cuLaunchKernel(add, 16, 1, 1, 256, 1, 1, 0, reader, params, NULL));
    OK(cuCtxSynchronize());
    if (!leaky)
        OK(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
