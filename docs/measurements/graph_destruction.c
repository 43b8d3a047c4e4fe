// Which destructions of executable graphs wait for the device?
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define C(x)                                                                                       \
    do {                                                                                           \
        CUresult r_ = (x);                                                                         \
        if (r_) {                                                                                  \
            const char *s = 0;                                                                     \
            cuGetErrorName(r_, &s);                                                                \
            printf("%s: %s line %d\n", #x, s, __LINE__);                                           \
            fflush(stdout);                                                                        \
        }                                                                                          \
    } while (0)
static const char *PTX =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry gate(.param .u64 p){ .reg .u64 %a; .reg .u32 %v; .reg .pred %q; ld.param.u64 "
    "%a,[p]; L: ld.volatile.global.u32 %v,[%a]; setp.eq.u32 %q,%v,0; @%q bra L; ret; }\n"
    ".visible .entry one(.param .u64 p){ .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a,[p]; "
    "ld.global.u32 %v,[%a]; add.u32 %v,%v,1; st.global.u32 [%a],%v; ret; }\n"
    ".visible .entry loc(.param .u64 p){ .local .align 4 .b8 st[4096]; .reg .u64 %a,%l; .reg .u32 "
    "%v,%i; ld.param.u64 %a,[p]; ld.global.u32 %v,[%a]; and.b32 %i,%v,1023; mul.wide.u32 %l,%i,4; "
    "mov.u64 %a,st; add.u64 %l,%l,%a; st.local.u32 [%l],%v; ld.local.u32 %v,[%l]; ld.param.u64 "
    "%a,[p]; st.global.u32 [%a],%v; ret; }\n";
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}
static volatile int *flag;
static volatile double deadline;
static void *watch(void *x) {
    (void)x;
    for (;;) {
        usleep(1000);
        if (deadline > 0 && now() > deadline) {
            *flag = 1;
            deadline = 0;
        }
    }
    return 0;
}
static CUcontext ctx;
static CUstream s, u;
static CUfunction gate, one, loc;
static CUdeviceptr d, e, gflag;
static char *h;
static int *pinned;
enum {
    KERNEL,
    KERNEL_LOCAL,
    COPY_DD,
    COPY_DD2,
    COPY_HD,
    COPY_DH,
    COPY2_HD,
    COPY2_DD,
    COPY_PAGEABLE,
    SET,
    SET2,
    CHILD,
    TWO_BRANCH,
    HUNDRED,
    KINDS
};
static const char *names[] = {"kernel",
                              "kernel with local memory",
                              "copy DtoD",
                              "copy DtoD x2",
                              "copy HtoD",
                              "copy DtoH",
                              "2-D HtoD",
                              "2-D DtoD",
                              "copy pageable HtoD",
                              "memset",
                              "memset 2-D",
                              "child",
                              "two branches",
                              "100 kernels"};
static CUgraphNode addk(CUgraph g, CUfunction f, CUgraphNode *dep, CUdeviceptr *a) {
    CUgraphNode n;
    CUDA_KERNEL_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    void *args[] = {a};
    p.func = f;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = args;
    C(cuGraphAddKernelNode(&n, g, dep, dep ? 1 : 0, &p));
    return n;
}
static CUgraphNode addc(CUgraph g, CUgraphNode *dep, int kind, int rows) {
    CUgraphNode n;
    CUDA_MEMCPY3D c;
    memset(&c, 0, sizeof c);
    c.WidthInBytes = 256;
    c.Height = rows;
    c.Depth = 1;
    c.srcPitch = c.dstPitch = 512;
    c.srcHeight = c.dstHeight = rows;
    static char page[1 << 16];
    int hd = kind == COPY_HD || kind == COPY2_HD || kind == COPY_PAGEABLE, dh = kind == COPY_DH;
    if (hd) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = kind == COPY_PAGEABLE ? page : h;
    } else {
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = d;
    }
    if (dh) {
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = h;
    } else {
        c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c.dstDevice = e;
    }
    C(cuGraphAddMemcpyNode(&n, g, dep, dep ? 1 : 0, &c, ctx));
    return n;
}
static CUgraph make(int k) {
    CUgraph g;
    C(cuGraphCreate(&g, 0));
    CUgraphNode n, m;
    CUDA_MEMSET_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.dst = d;
    p.elementSize = 1;
    p.width = 100;
    p.height = 1;
    p.value = 3;
    p.pitch = 512;
    switch (k) {
    case KERNEL:
        addk(g, one, 0, &d);
        break;
    case KERNEL_LOCAL:
        addk(g, loc, 0, &d);
        break;
    case COPY_DD2:
        n = addc(g, 0, k, 1);
        addc(g, &n, k, 1);
        break;
    case COPY2_HD:
    case COPY2_DD:
        addc(g, 0, k, 16);
        break;
    case COPY_DD:
    case COPY_HD:
    case COPY_DH:
    case COPY_PAGEABLE:
        addc(g, 0, k, 1);
        break;
    case SET2:
        p.height = 8; /*fall*/
    case SET:
        C(cuGraphAddMemsetNode(&n, g, 0, 0, &p, ctx));
        break;
    case CHILD: {
        CUgraph c;
        C(cuGraphCreate(&c, 0));
        addk(c, one, 0, &d);
        C(cuGraphAddChildGraphNode(&n, g, 0, 0, c));
        C(cuGraphDestroy(c));
        break;
    }
    case TWO_BRANCH:
        n = addk(g, one, 0, &d);
        m = addk(g, one, &n, &e);
        (void)m;
        addk(g, one, &n, &d);
        break;
    case HUNDRED:
        n = addk(g, one, 0, &d);
        for (int i = 1; i < 100; i++) {
            n = addk(g, one, &n, &d);
        }
        break;
    }
    return g;
}
static void close_gate(CUstream t) {
    *flag = 0;
    void *a[] = {&gflag};
    C(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, t, a, 0));
}
int main(void) {
    C(cuInit(0));
    CUdevice dev;
    C(cuDeviceGet(&dev, 0));
    C(cuDevicePrimaryCtxRetain(&ctx, dev));
    C(cuCtxSetCurrent(ctx));
    CUmodule mod;
    C(cuModuleLoadData(&mod, PTX));
    C(cuModuleGetFunction(&gate, mod, "gate"));
    C(cuModuleGetFunction(&one, mod, "one"));
    C(cuModuleGetFunction(&loc, mod, "loc"));
    C(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    C(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
    C(cuMemAlloc(&d, 1 << 20));
    C(cuMemAlloc(&e, 1 << 20));
    C(cuMemHostAlloc((void **)&h, 1 << 20, 0));
    C(cuMemHostAlloc((void **)&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    flag = pinned;
    C(cuMemHostGetDevicePointer(&gflag, pinned, 0));
    pthread_t t;
    pthread_create(&t, 0, watch, 0);
    const char *modes[] = {
        "pending behind a gate",          "complete, another stream gated",
        "never launched, a stream gated", "unlaunched + uploaded, gated",
        "complete, nothing gated"};
    for (int k = 0; k < KINDS; k++)
        for (int m = 0; m < 5; m++) {
            double worst = 0, inst = 0, gd = 0, lau = 0;
            for (int r = 0; r < 3; r++) {
                CUgraph g = make(k);
                CUgraphExec x;
                C(cuGraphInstantiateWithFlags(&x, g, 0));
                if (m == 1 || m == 4) {
                    C(cuGraphLaunch(x, s));
                    C(cuCtxSynchronize());
                }
                if (m == 3) {
                    C(cuGraphUpload(x, s));
                    C(cuCtxSynchronize());
                }
                if (m != 4)
                    close_gate(m == 0 ? s : u);
                deadline = now() + 150;
                double a = now();
                if (m == 0)
                    C(cuGraphLaunch(x, s));
                double b = now();
                if (b - a > lau)
                    lau = b - a;
                C(cuGraphExecDestroy(x));
                double c = now();
                if (c - b > worst)
                    worst = c - b;
                C(cuGraphDestroy(g));
                double f = now();
                if (f - c > gd)
                    gd = f - c;
                // making another while it is gated
                CUgraph g2 = make(k);
                double i0 = now();
                CUgraphExec x2;
                C(cuGraphInstantiateWithFlags(&x2, g2, 0));
                double i1 = now();
                if (i1 - i0 > inst)
                    inst = i1 - i0;
                *flag = 1;
                deadline = 0;
                C(cuCtxSynchronize());
                C(cuGraphExecDestroy(x2));
                C(cuGraphDestroy(g2));
            }
            printf("%-26s %-34s launch %8.3f ms exec destroy %8.3f ms  graph destroy %8.3f ms  "
                   "instantiate another %8.3f ms%s\n",
                   names[k], modes[m], lau, worst, gd, inst,
                   worst > 50 || inst > 50 || gd > 50 || lau > 50 ? "  BLOCKS" : "");
            fflush(stdout);
        }
    // many pending at once
    for (int k = 0; k < KINDS; k++) {
        CUgraphExec x[64];
        CUgraph g[64];
        for (int i = 0; i < 64; i++) {
            g[i] = make(k);
            C(cuGraphInstantiateWithFlags(&x[i], g[i], 0));
        }
        close_gate(s);
        deadline = now() + 300;
        for (int i = 0; i < 64; i++)
            C(cuGraphLaunch(x[i], s));
        double a = now(), worst = 0;
        int at = -1;
        for (int i = 0; i < 64; i++) {
            double b = now();
            C(cuGraphExecDestroy(x[i]));
            double c = now();
            if (c - b > worst) {
                worst = c - b;
                at = i;
            }
            C(cuGraphDestroy(g[i]));
        }
        printf("64 pending of %-26s worst destroy %8.3f ms at %d total %8.3f\n", names[k], worst,
               at, now() - a);
        fflush(stdout);
        *flag = 1;
        deadline = 0;
        C(cuCtxSynchronize());
    }
    // events, modules, streams created and destroyed behind a gate
    {
        close_gate(s);
        deadline = now() + 150;
        double a = now();
        CUmodule m2;
        C(cuModuleLoadData(&m2, PTX));
        double b = now();
        CUfunction f;
        C(cuModuleGetFunction(&f, m2, "one"));
        double c = now();
        *flag = 1;
        deadline = 0;
        C(cuCtxSynchronize());
        close_gate(s);
        deadline = now() + 150;
        double dd = now();
        C(cuModuleUnload(m2));
        double ee = now();
        *flag = 1;
        deadline = 0;
        C(cuCtxSynchronize());
        printf("module load %.3f get function %.3f unload %.3f ms behind a gate\n", b - a, c - b,
               ee - dd);
    }
    return 0;
}
