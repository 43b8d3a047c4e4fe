// Kernels that the device cannot run beside others that it can, managed variables, the heap of
// kernels, and a failed assertion: each is an argument.
#include "driver.h"

int cuCtxSetLimit(int, size_t);
int cuCtxGetLimit(size_t *, int);
int cuFuncLoad(Handle);

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"

static const char *const mixed =
    HEAD ".func product()\n{ wgmma.fence.sync.aligned; ret; }\n"
    ".visible .entry _Z6matrixPi(.param .u64 p)\n{ call product; ret; }\n"
    ".visible .entry plain(.param .u64 p)\n"
    "{ .reg .b64 d; ld.param.u64 d, [p]; st.global.u32 [d], 7; ret; }\n";

static const char *const code =
    HEAD ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
    ".extern .func free(.param .b64 p);\n"
    ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, "
    ".param .b64 c);\n"
    ".global .attribute(.managed) .align 4 .b8 x[16] = {1, 0, 0, 0, 2};\n"
    ".global .b8 text[6] = {110, 32, 62, 32, 51, 0};\n"
    ".global .b8 file[5] = {97, 46, 99, 117, 0};\n"
    ".global .b8 function[9] = {118, 111, 105, 100, 32, 107, 40, 41, 0};\n"
    ".visible .entry blocks(.param .u64 p, .param .u64 n)\n"
    "{ .reg .b64 d<3>; .reg .b32 r; .param .b64 a; .param .b64 b;\n"
    "ld.param.u64 d0, [p]; ld.param.u64 d1, [n]; st.param.b64 [a], d1;\n"
    "call.uni (b), malloc, (a); ld.param.b64 d2, [b]; st.global.u64 [d0], d2;\n"
    "st.param.b64 [a], d2; call.uni free, (a);\n"
    "ld.global.u32 r, [x+4]; add.u32 r, r, 40; st.global.u32 [x+4], r; ret; }\n"
    ".visible .entry asserts()\n"
    "{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;\n"
    ".reg .b64 d; .reg .b32 r; .reg .pred p;\n"
    "mov.u32 r, %tid.x; setp.ne.u32 p, r, 2; @p ret;\n"
    "mov.u64 d, text; st.param.b64 [m], d; mov.u64 d, file; st.param.b64 [f], d;\n"
    "st.param.b32 [l], 5; mov.u64 d, function; st.param.b64 [n], d; st.param.b64 [c], 1;\n"
    "call.uni __assertfail, (m, f, l, n, c); ret; }\n";

static Handle kernel(const char *ptx, const char *name, Handle *module) {
    Handle function;
    OK(cuModuleLoadDataEx(module, ptx, 0, NULL, NULL));
    OK(cuModuleGetFunction(&function, *module, name));
    return function;
}

static int launch(Handle function, unsigned threads, void **params) {
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL);
}

int main(int count, char **arguments) {
    Handle context, module, function, library;
    Address memory, shared, block;
    size_t bytes;
    int value = 0;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, 8));
    void *params[] = {&memory, &bytes};
    if (count < 2) {
        function = kernel(mixed, "_Z6matrixPi", &module);
        OK(cuLibraryLoadData(&library, mixed, NULL, NULL, 0, NULL, NULL, 0));
        FAILS(218, cuFuncLoad(function));
        FAILS(218, launch(function, 1, params));
        OK(cuModuleGetFunction(&function, module, "plain"));
        OK(launch(function, 1, params));
        OK(cuMemcpyDtoH_v2(&value, memory, 4));
        HOLDS(value == 7);
    } else if (!strcmp(arguments[1], "memory")) {
        OK(cuCtxGetLimit(&bytes, 2));
        HOLDS(bytes == 8 << 20);
        OK(cuCtxSetLimit(2, 100));
        function = kernel(code, "blocks", &module);
        for (bytes = 96; bytes <= 128; bytes += 32) {
            OK(launch(function, 1, params));
            OK(cuMemcpyDtoH_v2(&block, memory, 8));
            HOLDS((block != 0) == (bytes == 96));
        }
        OK(cuModuleGetGlobal_v2(&shared, &bytes, module, "x"));
        HOLDS(bytes == 16 && ((int *)shared)[0] == 1 && ((int *)shared)[1] == 82);
        OK(cuPointerGetAttribute(&value, 8, shared));
        HOLDS(value == 1);
    } else {
        OK(launch(kernel(code, "asserts", &module), 4, NULL));
        FAILS(710, cuCtxSynchronize());
        FAILS(710, cuCtxSynchronize());
    }
    printf("all did\n");
    return 0;
}
