// The kernels that cuBLAS launches for a product, captured twice with other addresses, and the
// words of their arguments that differ.
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#include <vector>
struct K {
    CUDA_KERNEL_NODE_PARAMS p;
    std::vector<std::vector<unsigned char>> v;
};
static int capture(cublasHandle_t h, cudaStream_t s, float *ws, int m, int n, int k, int ta,
                   int tb, const float *a, const float *b, float *c, std::vector<K> &out,
                   int batches) {
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    cublasSetStream(h, s);
    cublasSetWorkspace(h, ws, 32 << 20);
    float one = 1, zero = 0;
    int rc = batches == 1
                 ? cublasSgemm(h, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                               m, n, k, &one, a, ta ? k : m, b, tb ? n : k, &zero, c, m)
                 : cublasSgemmStridedBatched(
                       h, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k,
                       &one, a, ta ? k : m, (long long)m * k, b, tb ? n : k, (long long)k * n,
                       &zero, c, m, (long long)m * n, batches);
    cudaGraph_t g;
    int e = cudaStreamEndCapture(s, &g);
    size_t nn = 0;
    cuGraphGetNodes((CUgraph)g, NULL, &nn);
    std::vector<CUgraphNode> nodes(nn);
    cuGraphGetNodes((CUgraph)g, nodes.data(), &nn);
    size_t ne = 0;
    cuGraphGetEdges((CUgraph)g, NULL, NULL, NULL, &ne);
    printf("  gemm rc %d end %d nodes %zu edges %zu:", rc, e, nn, ne);
    for (size_t i = 0; i < nn; i++) {
        CUgraphNodeType t;
        cuGraphNodeGetType(nodes[i], &t);
        printf(" type %d", t);
        if (t == CU_GRAPH_NODE_TYPE_MEMSET) {
            CUDA_MEMSET_NODE_PARAMS q;
            cuGraphMemsetNodeGetParams(nodes[i], &q);
            printf("(memset w %zu h %zu el %u)", q.width, q.height, q.elementSize);
        }
        if (t != CU_GRAPH_NODE_TYPE_KERNEL)
            continue;
        K x;
        memset(&x.p, 0, sizeof x.p);
        int r = cuGraphKernelNodeGetParams(nodes[i], &x.p);
        const char *name = "?";
        if (x.p.func)
            cuFuncGetName(&name, x.p.func);
        else if (x.p.kern)
            cuKernelGetName(&name, x.p.kern);
        printf(" r %d %s %ux%ux%u/%u sh %u func %d kern %d extra %d", r, name, x.p.gridDimX,
               x.p.gridDimY, x.p.gridDimZ, x.p.blockDimX, x.p.sharedMemBytes, x.p.func != 0,
               x.p.kern != 0, x.p.extra != 0);
        for (int a = 1; a <= 13; a++) {
            CUkernelNodeAttrValue v;
            memset(&v, 0, sizeof v);
            if (cuGraphKernelNodeGetAttribute(nodes[i], (CUkernelNodeAttrID)a, &v) == 0) {
                unsigned *w = (unsigned *)&v;
                if (w[0] | w[1] | w[2])
                    printf(" attr%d=%u,%u,%u", a, w[0], w[1], w[2]);
            }
        }
        for (size_t q = 0;; q++) {
            size_t off, sz;
            int rr = x.p.func ? cuFuncGetParamInfo(x.p.func, q, &off, &sz)
                              : cuKernelGetParamInfo(x.p.kern, q, &off, &sz);
            if (rr)
                break;
            x.v.emplace_back((unsigned char *)x.p.kernelParams[q],
                             (unsigned char *)x.p.kernelParams[q] + sz);
            printf(" p%zu@%zu:%zu", q, off, sz);
        }
        out.push_back(x);
    }
    printf("\n");
    return rc;
}
int main() {
    cudaFree(0);
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cublasHandle_t h;
    cublasCreate(&h);
    float *p;
    cudaMalloc(&p, 1ull << 30);
    float *ws;
    cudaMalloc(&ws, 64 << 20);
    int shapes[][6] = {
        {512, 512, 784, 0, 0, 1},   {10, 512, 512, 0, 0, 1},    {512, 784, 512, 0, 1, 1},
        {10, 512, 512, 0, 1, 1},    {512, 512, 10, 1, 0, 1},    {512, 10, 512, 1, 1, 1},
        {1024, 1024, 64, 1, 0, 16}, {64, 1024, 1024, 0, 0, 16}, {64, 1000000, 16, 1, 0, 1},
        {6, 5, 8, 0, 0, 1},         {4096, 4096, 4096, 0, 0, 1}};
    for (auto &q : shapes) {
        printf("m %d n %d k %d ta %d tb %d x %d\n", q[0], q[1], q[2], q[3], q[4], q[5]);
        std::vector<K> one, two, three;
        const float *a = p, *b = p + (64 << 20);
        float *c = p + (128 << 20);
        cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &(const float &)1.f, a, 8, b, 8,
                    &(const float &)0.f, c, 8);
        capture(h, s, ws, q[0], q[1], q[2], q[3], q[4], a, b, c, one, q[5]);
        size_t G = 1ull << 32;
        capture(h, s, (float *)((char *)ws + 4 * G), q[0], q[1], q[2], q[3], q[4],
                (float *)((char *)a + G), (float *)((char *)b + 2 * G),
                (float *)((char *)c + 3 * G), two, q[5]);
        if (one.size() != two.size()) {
            printf("  DIFFERENT COUNT\n");
            continue;
        }
        for (size_t i = 0; i < one.size(); i++)
            for (size_t j = 0; j < one[i].v.size(); j++) {
                auto &u = one[i].v[j], &v = two[i].v[j];
                if (one[i].p.func != two[i].p.func || one[i].p.kern != two[i].p.kern) {
                    printf("  OTHER KERNEL\n");
                    break;
                }
                for (size_t o = 0; o < u.size();) {
                    if (o % 8 == 0 && o + 8 <= u.size() && memcmp(&u[o], &v[o], 8)) {
                        unsigned long long x, y;
                        memcpy(&x, &u[o], 8);
                        memcpy(&y, &v[o], 8);
                        printf("  k%zu p%zu+%zu: %llx -> %llx diff %lld G\n", i, j, o, x, y,
                               (long long)(y - x) >> 32);
                        o += 8;
                    } else {
                        if (u[o] != v[o])
                            printf("  k%zu p%zu+%zu BYTE differs\n", i, j, o);
                        o++;
                    }
                }
            }
    }
    return 0;
}
