// A program over the runtime of CUDA 13 with a library (LIBRARY) over that of CUDA 12.
#include "cudart.h"

static const char *const code =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry set(.param .u64 p, .param .u32 n)\n"
    "{ .reg .b64 d; .reg .b32 r; ld.param.u64 d, [p]; ld.param.u32 r, [n];\n"
    "st.global.u32 [d], r; ret; }\n";

// Each side registers the same kernel by a variable of its own.
static char set;

__attribute__((constructor)) static void start(void) {
    register_kernel(registered(fat_binary(code, 1, 75)), &set, "set");
}

static void launch(void *memory, int number) {
    void *arguments[] = {&memory, &number};
    OK(cudaLaunchKernel(&set, one, one, arguments, 0, NULL));
}

#ifdef LIBRARY
int other(void *memory) {
    int version, number;
    launch(memory, 12);
    OK(cudaMemcpy(&number, memory, 4, 2));
    OK(cudaRuntimeGetVersion(&version));
    FAILS(1, cudaMalloc(NULL, 4));
    return number * 1000 + version / 1000;
}
#else
int other(void *);

int main(void) {
    void *memory;
    int version, number;
    OK(cudaMalloc(&memory, 4));
    CHECK(other(memory) == 12012);
    OK(cudaGetLastError());
    launch(memory, 13);
    OK(cudaMemcpy(&number, memory, 4, 2));
    OK(cudaRuntimeGetVersion(&version));
    CHECK(number == 13 && version / 1000 == 13);
    OK(cudaFree(memory));
    puts("12 and 13 did");
    return 0;
}
#endif
