// Which calls for device 0 wait for a kernel of device 0, and which for one of device 1: each call
// is made while a kernel runs for 100 ms, without peer access and then with it.
//   nvcc -o frees_of_two_devices frees_of_two_devices.cu -lcuda && ./frees_of_two_devices
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define C(x) do { CUresult r_ = (x); if (r_) { printf("FAILED %d at %s\n", r_, #x); exit(1); } } while (0)
#define R(x) do { cudaError_t r_ = (x); if (r_) { printf("FAILED %d at %s\n", r_, #x); exit(1); } } while (0)
static const size_t BYTES = 64 << 20;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
__global__ void busy(unsigned long long ns) {
  unsigned long long begin, end;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end)); while (end - begin < ns);
}
static cudaStream_t streams[2];
static void begin(int device) {
  R(cudaSetDevice(device));
  busy<<<1, 1, 0, streams[device]>>>(100000000ull);
  R(cudaGetLastError());
  R(cudaSetDevice(0));
  usleep(3000);
}
static void drain(void) {
  for (int d = 0; d < 2; d++) { R(cudaSetDevice(d)); R(cudaDeviceSynchronize()); }
  R(cudaSetDevice(0));
}
static cudaGraphExec_t graph(void) {
  cudaGraph_t g; cudaGraphExec_t e;
  R(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
  busy<<<1, 1, 0, streams[0]>>>(1000);
  R(cudaStreamEndCapture(streams[0], &g));
  R(cudaGraphInstantiate(&e, g, 0)); R(cudaGraphLaunch(e, streams[0])); R(cudaStreamSynchronize(streams[0])); R(cudaGraphDestroy(g));
  return e;
}
int main(void) {
  const char *names[] = {"cuMemFree", "cuMemFreeHost", "cuMemFreeHost, portable", "cuMemHostUnregister", "cuMemFree, managed",
    "cuGraphExecDestroy", "cuStreamDestroy", "cuMemPoolTrimTo, 64 MiB free", "cuMemHostAlloc", "cuMemAlloc"};
  for (int d = 0; d < 2; d++) { R(cudaSetDevice(d)); R(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking)); }
  R(cudaSetDevice(0));
  for (int peers = 0; peers < 2; peers++) {
    if (peers) {
      R(cudaDeviceEnablePeerAccess(1, 0)); R(cudaSetDevice(1)); R(cudaDeviceEnablePeerAccess(0, 0)); R(cudaSetDevice(0));
    }
    printf("%s peer access\n%-32s %14s %14s  ms\n", peers ? "with" : "without", "call for device 0", "device 0 busy", "device 1 busy");
    for (int call = 0; call < 10; call++) {
      double took[2];
      for (int device = 0; device < 2; device++) {
        void *p = NULL; CUmemoryPool pool; C(cuDeviceGetDefaultMemPool(&pool, 0));
        unsigned long long max = ~0ull; C(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &max));
        switch (call) {
          case 0: R(cudaMalloc(&p, BYTES)); break;
          case 1: C(cuMemHostAlloc(&p, BYTES, 0)); break;
          case 2: C(cuMemHostAlloc(&p, BYTES, CU_MEMHOSTALLOC_PORTABLE)); break;
          case 3: p = aligned_alloc(4096, BYTES); C(cuMemHostRegister(p, BYTES, CU_MEMHOSTREGISTER_PORTABLE)); break;
          case 4: R(cudaMallocManaged(&p, BYTES)); break;
          case 5: p = graph(); break;
          case 6: { cudaStream_t s; R(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); p = s; break; }
          case 7: R(cudaMallocAsync(&p, BYTES, streams[0])); R(cudaFreeAsync(p, streams[0])); R(cudaStreamSynchronize(streams[0])); break;
        }
        drain();
        begin(device);
        double since = now();
        switch (call) {
          case 0: C(cuMemFree((CUdeviceptr)p)); break;
          case 1: case 2: C(cuMemFreeHost(p)); break;
          case 3: C(cuMemHostUnregister(p)); break;
          case 4: C(cuMemFree((CUdeviceptr)p)); break;
          case 5: R(cudaGraphExecDestroy((cudaGraphExec_t)p)); break;
          case 6: R(cudaStreamDestroy((cudaStream_t)p)); break;
          case 7: C(cuMemPoolTrimTo(pool, 0)); break;
          case 8: C(cuMemHostAlloc(&p, BYTES, CU_MEMHOSTALLOC_PORTABLE)); break;
          case 9: R(cudaMalloc(&p, BYTES)); break;
        }
        took[device] = now() - since;
        drain();
        if (call == 3) free(p);
        if (call == 8) C(cuMemFreeHost(p));
        if (call == 9) R(cudaFree(p));
      }
      printf("%-32s %14.2f %14.2f\n", names[call], took[0], took[1]);
      fflush(stdout);
    }
  }
  return 0;
}
