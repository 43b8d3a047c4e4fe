// What kernels print is in order with what the host prints, and CUDA's calls write it when they must.
#include "driver.h"

// Prints the format of the module with a byte of -1.
static const char *const ptx =
    ".version 9.5\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);\n"
    ".global .align 1 .b8 format[] = {107, 101, 114, 110, 101, 108, 32, 37, 104, 104, 100, 10, 0};\n"
    ".visible .entry say(.param .u64 unused)\n{\n"
    ".local .align 8 .b8 arguments[8]; .reg .b64 f, a; .reg .b32 v;\n"
    "mov.u32 v, 0x1ff; st.local.u32 [arguments], v;\n"
    "mov.u64 f, format; cvta.global.u64 f, f; mov.u64 a, arguments; cvta.local.u64 a, a;\n"
    "{ .param .b64 p; .param .b64 q; .param .b32 r;\n"
    "st.param.b64 [p], f; st.param.b64 [q], a; call.uni (r), vprintf, (p, q); }\nret;\n}\n";

static Handle context, module, say, event;
static Address memory;
static unsigned word;

static void launch(void) {
    void *params[] = {&memory};
    OK(cuLaunchKernel(say, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

// Waits by queries, which write nothing.
static void finish(void) {
    while (cuStreamQuery(NULL) == 600) {}
}

static void called(Handle stream, int status, void *data) {
    (void)stream, (void)status;
    printf("%s\n", (char *)data);
}

static void stream(void) { OK(cuStreamSynchronize(NULL)); }
static void of_event(void) { OK(cuEventSynchronize(event)); }
static void of_context(void) { OK(cuCtxSynchronize()); }
static void copy(void) { OK(cuMemcpyDtoH_v2(&word, memory, 4)); }
static void rows(void) {
    struct Rows copy = {.source_type = 2, .source_device = memory, .source_pitch = 4,
                        .target_type = 1, .target_host = &word, .target_pitch = 4,
                        .width_bytes = 4, .height = 1};
    OK(cuMemcpy2D_v2(&copy));
}
static void call(void) {
    OK(cuStreamAddCallback(NULL, called, "callback", 0));
    while (cuStreamQuery(NULL) == 600) {}
}
static void next(void) {
    finish();
    launch();
    printf("next\n");
    OK(cuStreamSynchronize(NULL));
}
static void load(void) {
    finish();
    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
}
static void unload(void) {
    finish();
    OK(cuModuleUnload(module));
}

int main(void) {
    static const struct {
        const char *name;
        void (*run)(void);
    } flushes[] = {{"stream", stream}, {"event", of_event}, {"context", of_context},
                   {"copy", copy},     {"rows", rows},      {"call", call},
                   {"next", next},     {"load", load},      {"unload", unload}};
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, 4));
    OK(cuMemsetD32_v2(memory, 0, 1));
    OK(cuEventCreate(&event, 0));
    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cuModuleGetFunction(&say, module, "say"));
    for (size_t i = 0; i < sizeof flushes / sizeof *flushes; i++) {
        launch();
        OK(cuEventRecord(event, NULL));
        printf("%s\n", flushes[i].name);
        flushes[i].run();
        printf("-\n");
    }
    OK(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cuModuleGetFunction(&say, module, "say"));
    launch();
    finish();
    printf("end\n");
    return 0;
}
