// What a stream that captures does to events, and what interprocess events cost:
//   gcc interprocess_events.c -o interprocess_events /path/to/libcuda.so.1 && ./interprocess_events
#include <stdio.h>
#include <time.h>

typedef int Result;
typedef void *Handle;
extern Result cuInit(unsigned);
extern Result cuDeviceGet(int *, int);
extern Result cuDevicePrimaryCtxRetain(Handle *, int);
extern Result cuCtxSetCurrent(Handle);
extern Result cuStreamCreate(Handle *, unsigned);
extern Result cuStreamSynchronize(Handle);
extern Result cuStreamWaitEvent(Handle, Handle, unsigned);
extern Result cuStreamBeginCapture_v2(Handle, int);
extern Result cuStreamEndCapture(Handle, Handle *);
extern Result cuStreamIsCapturing(Handle, int *);
extern Result cuEventCreate(Handle *, unsigned);
extern Result cuEventRecord(Handle, Handle);
extern Result cuEventQuery(Handle);
extern Result cuMemAlloc_v2(unsigned long long *, size_t);
extern Result cuMemsetD8Async(unsigned long long, unsigned char, size_t, Handle);

enum { NON_BLOCKING = 1, DISABLE_TIMING = 2, INTERPROCESS = 4, RELAXED = 2 };

static Handle stream, other, plain, interprocess;
static unsigned long long memory;

static int status(void) {
    int status = -1;
    cuStreamIsCapturing(stream, &status);
    return status;
}

static void capture(const char *name, Handle event, int query) {
    Handle graph = 0;
    cuStreamBeginCapture_v2(stream, RELAXED);
    cuMemsetD8Async(memory, 1, 64, stream);
    printf("%s event: record in a capture %d", name, cuEventRecord(event, stream));
    if (query) printf(", query %d", cuEventQuery(event));
    printf(", status %d", status());
    printf(", end %d", cuStreamEndCapture(stream, &graph));
    printf(", query behind the end %d", cuEventQuery(event));
    printf(", wait of another stream %d\n", cuStreamWaitEvent(other, event, 0));
    cuEventRecord(event, other);
    cuStreamSynchronize(other);
}

static void wait_in_capture(void) {
    Handle graph = 0;
    cuEventRecord(plain, other);
    cuStreamBeginCapture_v2(stream, RELAXED);
    printf("wait of a capturing stream for an event of another %d", cuStreamWaitEvent(stream, plain, 0));
    printf(", status %d", status());
    printf(", end %d\n", cuStreamEndCapture(stream, &graph));
}

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void cost(const char *name, Handle event) {
    const int count = 2000;
    double start = now_ns();
    for (int i = 0; i < count; i++) cuEventRecord(event, stream);
    double record = now_ns() - start;
    cuStreamSynchronize(stream);
    start = now_ns();
    for (int i = 0; i < count; i++) cuStreamWaitEvent(other, event, 0);
    double wait = now_ns() - start;
    cuStreamSynchronize(other);
    start = now_ns();
    for (int i = 0; i < count; i++) {
        cuMemsetD8Async(memory, 1, 64, stream);
        cuEventRecord(event, stream);
        cuStreamWaitEvent(other, event, 0);
        cuMemsetD8Async(memory, 1, 64, other);
        cuStreamSynchronize(other);
    }
    double edge = now_ns() - start;
    printf("%s event: record %.0f ns, wait %.0f ns, fill, edge, fill to completion %.0f ns\n", name,
           record / count, wait / count, edge / count);
}

int main(void) {
    int device;
    Handle context;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuMemAlloc_v2(&memory, 4096);
    cuStreamCreate(&stream, NON_BLOCKING);
    cuStreamCreate(&other, NON_BLOCKING);
    cuEventCreate(&plain, DISABLE_TIMING);
    cuEventCreate(&interprocess, DISABLE_TIMING | INTERPROCESS);
    capture("plain", plain, 1);
    capture("plain", plain, 0);
    capture("interprocess", interprocess, 1);
    wait_in_capture();
    for (int i = 0; i < 2; i++) {
        cost("plain", plain);
        cost("interprocess", interprocess);
    }
    return 0;
}
