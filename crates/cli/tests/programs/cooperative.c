// A cooperative launch whose blocks meet at the grid's barrier, by the functions of CUDA's device
// runtime library.
#include "driver.h"

enum { BLOCKS = 20 };

int cuLaunchCooperativeKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, Handle, void **);

// Each block writes its number plus one, and after the barrier reads what its neighbour wrote. The
// second array receives the barrier's result in front of it.
static const char *const ptx =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);\n"
    ".extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);\n"
    ".visible .entry turn(.param .u64 written, .param .u64 read)\n{\n"
    ".reg .pred p; .reg .b32 b, n, v, t; .reg .b64 w, o, a, d;\n"
    "ld.param.u64 w, [written]; ld.param.u64 o, [read];\n"
    "mov.u32 b, %ctaid.x; mov.u32 n, %nctaid.x; mov.u32 t, %tid.x; setp.ne.u32 p, t, 0;\n"
    "add.u32 v, b, 1; mul.wide.u32 a, b, 4; add.s64 d, w, a; @!p st.global.u32 [d], v;\n"
    "{ .param .b32 scope; .param .b64 handle; .param .b32 result;\n"
    "st.param.b32 [scope], 1;\n"
    "call.uni (handle), cudaCGGetIntrinsicHandle, (scope);\n"
    "st.param.b32 [scope], 0;\n"
    "call.uni (result), cudaCGSynchronize, (handle, scope);\n"
    "ld.param.b32 t, [result]; }\n"
    "@!p st.global.u32 [o], t; @p ret;\n"
    "rem.u32 v, v, n; mul.wide.u32 d, v, 4; add.s64 d, w, d; ld.global.u32 v, [d];\n"
    "add.s64 d, o, a; st.global.u32 [d+4], v;\nret;\n}\n";

// Stands for libcudadevrt.a: what is in it beside the member's name does not matter.
static const char library[] = "!<arch>\ncuda_device_runtime.o/\nmachine code";

int main(void) {
    Handle context, module, turn, linker;
    Address memory;
    void *image;
    size_t size;
    unsigned values[2 * BLOCKS + 1];
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuLinkCreate_v2(0, NULL, NULL, &linker));
    FAILS(801, cuLinkAddData_v2(linker, 4, "!<arch>\n", 8, "other", 0, NULL, NULL));
    OK(cuLinkAddData_v2(linker, 4, library, sizeof library, "devrt", 0, NULL, NULL));
    OK(cuLinkAddData_v2(linker, 1, ptx, strlen(ptx) + 1, "ptx", 0, NULL, NULL));
    OK(cuLinkComplete(linker, &image, &size));
    OK(cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
    OK(cuLinkDestroy(linker));
    OK(cuModuleGetFunction(&turn, module, "turn"));
    OK(cuMemAlloc_v2(&memory, sizeof values));
    Address read = memory + 4 * BLOCKS;
    void *params[] = {&memory, &read};

    struct Attribute cooperative = {.id = 2, .value = {1}};
    struct Config config = {.grid = {BLOCKS, 1, 1}, .block = {64, 1, 1},
                            .attributes = &cooperative, .attribute_count = 1};
    for (int round = 0; round < 2; round++) {
        OK(cuMemsetD8_v2(memory, 0xff, sizeof values));
        if (round == 0)
            OK(cuLaunchCooperativeKernel(turn, BLOCKS, 1, 1, 64, 1, 1, 0, NULL, params));
        else
            OK(cuLaunchKernelEx(&config, turn, params, NULL));
        OK(cuMemcpyDtoH_v2(values, memory, sizeof values));
        HOLDS(values[BLOCKS] == 0);
        for (unsigned b = 0; b < BLOCKS; b++)
            HOLDS(values[BLOCKS + 1 + b] == (b + 1) % BLOCKS + 1);
    }
    FAILS(720, cuLaunchCooperativeKernel(turn, 1 << 20, 1, 1, 64, 1, 1, 0, NULL, params));
    // Without the barrier's workspace the function returns an error.
    OK(cuLaunchKernel(turn, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(values, memory, sizeof values));
    HOLDS(values[BLOCKS] == 1);
    printf("all blocks met twice\n");
    return 0;
}
