// Adds two vectors on the device, and compares the sum with the host's.
#include "driver.h"

enum { COUNT = 10000 };

int main(int argc, char **arguments) {
    static float a[COUNT], b[COUNT], sum[COUNT];
    Handle context, module, add;
    Address device_a, device_b, device_sum;
    uint64_t count = COUNT;
    (void)argc;

    for (int i = 0; i < COUNT; i++) {
        a[i] = i;
        b[i] = 0.5f * i;
    }
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuModuleLoad(&module, arguments[1]));
    OK(cuModuleGetFunction(&add, module, "vecadd"));
    OK(cuMemAlloc_v2(&device_a, sizeof a));
    OK(cuMemAlloc_v2(&device_b, sizeof b));
    OK(cuMemAlloc_v2(&device_sum, sizeof sum));
    OK(cuMemcpyHtoD_v2(device_a, a, sizeof a));
    OK(cuMemcpyHtoD_v2(device_b, b, sizeof b));
    void *params[] = {&device_a, &device_b, &device_sum, &count};
    OK(cuLaunchKernel(add, 32, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(sum, device_sum, sizeof sum));
    for (int i = 0; i < COUNT; i++)
        HOLDS(sum[i] == a[i] + b[i]);
    OK(cuMemFree_v2(device_a));
    OK(cuMemFree_v2(device_b));
    OK(cuMemFree_v2(device_sum));
    OK(cuModuleUnload(module));
    OK(cuCtxDestroy_v2(context));
    printf("the sum is right\n");
    return 0;
}
