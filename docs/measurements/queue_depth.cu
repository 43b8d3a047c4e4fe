// How many operations a stream takes behind a kernel that does not end, until a call blocks: rule 54 of the guide.
#include <cstdio>
#include <atomic>
#include <chrono>
#include <thread>
#include <cuda_runtime.h>
__global__ void gate(volatile int* f) { while (!*f) {} }
static std::atomic<long> done{0};
static std::atomic<bool> stop{false};
static volatile int* flag;
static void watch(const char* what) {
  long last = -1; int still = 0;
  while (!stop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    long now = done;
    if (now == last) { if (++still == 10) { printf("%s: blocked after %ld calls\n", what, now); *flag = 1; return; } }
    else { still = 0; last = now; }
  }
}
template <class F> void probe(const char* what, long most, F call) {
  cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  *flag = 0; done = 0; stop = false;
  gate<<<1,1,0,s>>>((volatile int*)flag);
  std::thread w(watch, what);
  for (long i = 0; i < most; i++) { call(s); done = i + 1; }
  stop = true; w.join();
  if (*flag == 0) { printf("%s: %ld calls without blocking\n", what, most); *flag = 1; }
  cudaStreamSynchronize(s); cudaStreamDestroy(s);
}
__global__ void nothing() {}
int main() {
  int* f; cudaHostAlloc(&f, 4, cudaHostAllocPortable); flag = f; *flag = 1;
  char *h, *d; cudaHostAlloc(&h, 1 << 20, 0); cudaMalloc(&d, 1 << 20);
  gate<<<1,1>>>((volatile int*)flag); nothing<<<1,1>>>(); cudaDeviceSynchronize();
  cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  cudaStream_t other; cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  for (int round = 0; round < 2; round++) {
    probe("kernel launches", 100000, [&](cudaStream_t s) { nothing<<<1,1,0,s>>>(); });
    probe("copies device to page-locked", 100000, [&](cudaStream_t s) { cudaMemcpyAsync(h, d, 4, cudaMemcpyDeviceToHost, s); });
    probe("copies page-locked to device", 100000, [&](cudaStream_t s) { cudaMemcpyAsync(d, h, 4, cudaMemcpyHostToDevice, s); });
    probe("copies within the device", 100000, [&](cudaStream_t s) { cudaMemcpyAsync(d, d + 4096, 4, cudaMemcpyDeviceToDevice, s); });
    probe("fills", 100000, [&](cudaStream_t s) { cudaMemsetAsync(d, 0, 4, s); });
    probe("event records", 100000, [&](cudaStream_t s) { cudaEventRecord(e, s); });
    probe("copy and record", 100000, [&](cudaStream_t s) { cudaMemcpyAsync(h, d, 4, cudaMemcpyDeviceToHost, s); cudaEventRecord(e, s); });
    probe("waits for an event", 100000, [&](cudaStream_t s) { cudaEventRecord(e, other); cudaStreamWaitEvent(s, e, 0); });
    probe("allocate and free", 100000, [&](cudaStream_t s) { void* p; cudaMallocAsync(&p, 4096, s); cudaFreeAsync(p, s); });
  }
}
