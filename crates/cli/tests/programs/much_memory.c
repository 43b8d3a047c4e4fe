// Allocates much memory, in large and in many small parts, and touches little of it. Prints the
// resident memory in MiB. With an argument, then allocates too much, twice.
#include "driver.h"

static long resident_kib(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    fclose(status);
    return kib;
}

int main(int argc, char **arguments) {
    enum { MIB = 1 << 20 };
    Handle context, stream;
    Address memory[80], more;
    (void)arguments;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 1));
    long before = resident_kib();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 80; i++) {
            size_t bytes = (i < 2 ? 320 : 8) * (size_t)MIB;
            if (i % 2)
                OK(cuMemAllocAsync(&memory[i], bytes, stream));
            else
                OK(cuMemAlloc_v2(&memory[i], bytes));
            OK(cuMemsetD8Async(memory[i] + bytes / 2, 7, 100, stream));
        }
        OK(cuCtxSynchronize());
        for (int i = 0; i < 80; i++)
            if (round < 2)
                OK(cuMemFree_v2(memory[i]));
    }
    void *host;
    OK(cuMemHostAlloc(&host, 512 * (size_t)MIB, 0));
    OK(cuMemAllocManaged(&more, 512 * (size_t)MIB, 1));
    printf("%ld\n", (resident_kib() - before) / 1024);
    if (argc > 1) {
        FAILS(2, cuMemAlloc_v2(&more, 2048 * (size_t)MIB));
        FAILS(2, cuMemAllocAsync(&more, 2048 * (size_t)MIB, stream));
    }
    return 0;
}
