// One stream fills an array that a kernel of another stream reads. With the argument `ordered` the
// second stream waits for the first; with `legacy` the fill is on the legacy default stream, for
// which a blocking stream waits by itself; with `nonblocking` it would, but the stream is exempt. With
// `leaky` the second stream waits, and the memory and the streams stay alive. With `early` the host
// reads the sums without waiting for their asynchronous copy to pageable memory. With `captured`
// standard error is a file that is deleted, until the race has happened. With the name of an end,
// such as `abort`, the program ends in that way after the race; with `fork` it has a child by then.
// With `late` it launches a second kernel, waits, and aborts a moment later. With `idle` it launches nothing, and with `wrong` two calls have wrong arguments.
#include <signal.h>
#include <unistd.h>

#include "driver.h"

enum { COUNT = 4096 };

static void stop(void *unused) {
    (void)unused;
    abort();
}

static void end(const char *how) {
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(0);
    if (strcmp(how, "segfault") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "fork") == 0)
        fork();
}

int main(int argc, char **arguments) {
    Handle context, module, add, writer, reader, filled;
    Address memory, sum;
    uint64_t count = COUNT;
    const char *mode = argc > 2 ? arguments[2] : "";
    int blocking = strcmp(mode, "legacy") == 0;
    int on_legacy = blocking || strcmp(mode, "nonblocking") == 0;

    int standard_error = dup(2);
    if (strcmp(mode, "captured") == 0)
        dup2(fileno(tmpfile()), 2);
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
    if (strcmp(mode, "idle") == 0)
        return 0;
    if (strcmp(mode, "wrong") == 0) {
        cuStreamDestroy_v2((Handle)4);
        cuMemsetD32Async(sum, 1, 2 * COUNT, writer);
        return 0;
    }

    OK(cuMemsetD32Async(memory, 0x3f800000, COUNT, on_legacy ? NULL : writer));
    int leaky = strcmp(mode, "leaky") == 0, early = strcmp(mode, "early") == 0;
    if (leaky || early || strcmp(mode, "ordered") == 0) {
        OK(cuEventRecord(filled, writer));
        OK(cuStreamWaitEvent(reader, filled, 0));
    }
    void *params[] = {&memory, &memory, &sum, &count};
    OK(cuLaunchKernel(add, 16, 1, 1, 256, 1, 1, 0, reader, params, NULL));
    if (strcmp(mode, "host function") == 0)
        OK(cuLaunchHostFunc(reader, stop, NULL));
    if (early) {
        static float sums[COUNT];
        OK(cuMemcpyDtoHAsync_v2(sums, sum, sizeof sums, reader));
        if (sums[COUNT - 1] != 2)
            return 3;
    }
    OK(cuCtxSynchronize());
    dup2(standard_error, 2);
    if (strcmp(mode, "late") == 0) {
        OK(cuLaunchKernel(add, 16, 1, 1, 256, 1, 1, 0, reader, params, NULL));
        OK(cuCtxSynchronize());
        sleep(1);
        abort();
    }
    end(mode);
    if (!leaky)
        OK(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
