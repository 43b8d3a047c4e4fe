// A kernel of one stream waits for a flag. With `kernel` a kernel of another stream sets it, with
// `host` the host does, with `thread` another thread of it while this one is blocked, with `answer`
// the host does and waits in memory for the kernel's answer; with `nobody` nothing sets it, with
// `joined` neither, and a thread of the program waits for the one that is blocked, and with `exit`
// the program ends while the kernel waits.
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "driver.h"

static volatile uint32_t *flag, *answer;

static void *set(void *unused) {
    usleep(100000);
    flag[1] = 41;
    __sync_synchronize();
    flag[0] = 1;
    return unused;
}

static Handle streams[2];

static void *synchronise(void *context) {
    OK(cuCtxSetCurrent(context));
    int result = cuStreamSynchronize(streams[0]);
    printf("%d, %u\n", result, *answer);
    return NULL;
}

int main(int argc, char **arguments) {
    Handle context, module, wait, set_flag;
    const char *mode = argc > 2 ? arguments[2] : "";
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, arguments[1]));
    OK(cuModuleGetFunction(&wait, module, "wait"));
    OK(cuModuleGetFunction(&set_flag, module, "set"));
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], 1));
    OK(cuMemHostAlloc((void **)&flag, 8, 0));
    OK(cuMemHostAlloc((void **)&answer, 4, 0));
    flag[0] = flag[1] = answer[0] = 0;

    void *params[] = {&flag, &answer};
    OK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, streams[0], params, NULL));
    if (strcmp(mode, "exit") == 0)
        return 0;
    if (strcmp(mode, "kernel") == 0)
        OK(cuLaunchKernel(set_flag, 1, 1, 1, 1, 1, 1, 0, streams[1], params, NULL));
    pthread_t thread;
    if (strcmp(mode, "thread") == 0)
        pthread_create(&thread, NULL, set, NULL);
    if (strcmp(mode, "host") == 0 || strcmp(mode, "answer") == 0)
        set(NULL);
    while (strcmp(mode, "answer") == 0 && *answer == 0)
        ;
    if (strcmp(mode, "nobody") == 0)
        OK(cuLaunchKernel(set_flag, 1, 1, 1, 1, 1, 1, 0, streams[0], params, NULL));
    if (strcmp(mode, "joined") == 0) {
        pthread_create(&thread, NULL, synchronise, context);
        pthread_join(thread, NULL);
    } else {
        synchronise(context);
    }
    return 0;
}
