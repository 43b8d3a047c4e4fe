// Whether calls on a stream survive that another thread begins and ends captures of it:
//   gcc threads_and_captures.c -o threads_and_captures /path/to/libcuda.so.1 -lpthread
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int Result;
typedef void *Handle;
extern Result cuInit(unsigned);
extern Result cuDeviceGet(int *, int);
extern Result cuDevicePrimaryCtxRetain(Handle *, int);
extern Result cuCtxSetCurrent(Handle);
extern Result cuStreamCreate(Handle *, unsigned);
extern Result cuStreamWaitEvent(Handle, Handle, unsigned);
extern Result cuStreamBeginCapture_v2(Handle, int);
extern Result cuStreamEndCapture(Handle, Handle *);
extern Result cuGraphDestroy(Handle);
extern Result cuEventCreate(Handle *, unsigned);
extern Result cuEventRecord(Handle, Handle);
extern Result cuMemAlloc_v2(unsigned long long *, size_t);
extern Result cuMemsetD8Async(unsigned long long, unsigned char, size_t, Handle);

enum { NON_BLOCKING = 1, DISABLE_TIMING = 2, INTERPROCESS = 4, RELAXED = 2 };
enum { WAITS, FILLS, RECORDS, INTERPROCESS_RECORDS, KINDS };

static Handle context, stream, other, event;
static volatile int ended;

static void *captures(void *unused) {
    cuCtxSetCurrent(context);
    while (!ended) {
        Handle graph = 0;
        cuStreamBeginCapture_v2(stream, RELAXED);
        usleep(5);
        cuStreamEndCapture(stream, &graph);
        if (graph) cuGraphDestroy(graph);
    }
    return unused;
}

static void run(int kind) {
    int device;
    unsigned long long memory;
    pthread_t thread;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuMemAlloc_v2(&memory, 4096);
    cuStreamCreate(&stream, NON_BLOCKING);
    cuStreamCreate(&other, NON_BLOCKING);
    cuEventCreate(&event, DISABLE_TIMING | (kind == INTERPROCESS_RECORDS ? INTERPROCESS : 0));
    cuEventRecord(event, other);
    pthread_create(&thread, 0, captures, 0);
    for (int i = 0; i < 200000; i++) {
        if (kind == WAITS) cuStreamWaitEvent(stream, event, 0);
        if (kind == FILLS) cuMemsetD8Async(memory, 1, 64, stream);
        if (kind >= RECORDS) cuEventRecord(event, stream);
    }
    ended = 1;
    pthread_join(thread, 0);
}

int main(void) {
    const char *names[KINDS] = {"waits", "fills", "records", "records of an interprocess event"};
    for (int kind = 0; kind < KINDS; kind++) {
        int status;
        pid_t process = fork();
        if (!process) {
            alarm(30);
            run(kind);
            _exit(0);
        }
        waitpid(process, &status, 0);
        printf("%s: signal %d\n", names[kind], WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        fflush(stdout);
    }
    return 0;
}
