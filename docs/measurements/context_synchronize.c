// What makes cuCtxSynchronize slow: the time of an empty fill and the call, with one more thing
// in the process at each line.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define C(x) do { CUresult r_ = (x); if (r_) { printf("FAILED %d at %s\n", r_, #x); exit(1); } } while (0)
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static int cmp(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }
static CUstream s; static CUdeviceptr word; static CUevent ev;
static double one(int kind) {
  double t[200];
  for (int i = 0; i < 200; i++) {
    double a = now();
    if (kind != 3) C(cuMemsetD8Async(word, 1, 16, s));
    if (kind == 0 || kind == 3) C(cuCtxSynchronize());
    if (kind == 1) C(cuStreamSynchronize(s));
    if (kind == 2) { C(cuEventRecord(ev, s)); while (cuEventQuery(ev) == CUDA_ERROR_NOT_READY) ; }
    t[i] = now() - a;
  }
  qsort(t, 200, sizeof *t, cmp);
  return t[100];
}
static void line(const char *what) {
  printf("%-52s ctx %7.2f  stream %7.2f  event query %7.2f  idle ctx %7.2f us\n", what, one(0), one(1), one(2), one(3));
  fflush(stdout);
}
int main(void) {
  CUdevice d; CUcontext c; CUmemoryPool pool; CUdeviceptr p[64];
  C(cuInit(0)); C(cuDeviceGet(&d, 0)); C(cuDevicePrimaryCtxRetain(&c, d)); C(cuCtxSetCurrent(c));
  C(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); C(cuMemAlloc(&word, 16)); C(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
  line("nothing"); line("nothing, again");
  CUmemPoolProps props; memset(&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED; props.location.type = CU_MEM_LOCATION_TYPE_DEVICE; props.location.id = d;
  C(cuMemPoolCreate(&pool, &props));
  unsigned long long max = ~0ull; C(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &max));
  size_t gib = 1ull << 30;
  C(cuMemAllocFromPoolAsync(&p[0], gib, pool, s)); line("1 GiB of a pool, in use");
  C(cuMemFreeAsync(p[0], s)); line("1 GiB of a pool, free");
  for (int i = 0; i < 16; i++) C(cuMemAllocFromPoolAsync(&p[i], gib, pool, s));
  line("16 GiB of a pool, in use");
  for (int i = 0; i < 16; i++) C(cuMemFreeAsync(p[i], s));
  line("16 GiB of a pool, free");
  C(cuStreamSynchronize(s)); C(cuMemPoolTrimTo(pool, 0)); line("trimmed");
  for (int i = 0; i < 16; i++) C(cuMemAlloc(&p[i], gib));
  line("16 GiB by cuMemAlloc");
  for (int i = 0; i < 16; i++) C(cuMemFree(p[i]));
  line("freed");
  void *h; C(cuMemHostAlloc(&h, gib, 0)); line("1 GiB page-locked"); C(cuMemFreeHost(h)); line("freed");
  h = malloc(gib); memset(h, 1, gib); C(cuMemAlloc(&p[0], gib)); C(cuMemcpyHtoDAsync(p[0], h, gib, s)); line("1 GiB uploaded from pageable memory"); C(cuMemFree(p[0]));
  static CUstream many[64]; for (int i = 0; i < 64; i++) C(cuStreamCreate(&many[i], CU_STREAM_NON_BLOCKING));
  line("64 streams more"); for (int i = 0; i < 64; i++) C(cuMemsetD8Async(word, 1, 16, many[i])); line("64 streams more, used");
  for (int i = 0; i < 64; i++) C(cuStreamDestroy(many[i])); line("destroyed");
  static CUevent events[4096]; for (int i = 0; i < 4096; i++) { C(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING)); C(cuEventRecord(events[i], s)); }
  line("4,096 events recorded");
  CUgraph g; CUgraphNode n; static CUgraphExec e[512]; C(cuGraphCreate(&g, 0));
  CUDA_MEMSET_NODE_PARAMS m = {0}; m.dst = word; m.elementSize = 1; m.width = 16; m.height = 1;
  C(cuGraphAddMemsetNode(&n, g, NULL, 0, &m, c));
  for (int i = 0; i < 512; i++) C(cuGraphInstantiate(&e[i], g, 0));
  line("512 executable graphs"); for (int i = 0; i < 512; i++) C(cuGraphLaunch(e[i], s)); line("512 executable graphs, launched");
  return 0;
}
