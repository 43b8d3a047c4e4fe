// The launches of ESBMC's programs, and its functions for values that may be anything.
#pragma once
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
template <class Kernel, class Grid, class Block, class... Arguments>
void launch_kernel(Kernel *kernel, Grid grid, Block block, Arguments... arguments) {
    kernel<<<dim3(grid), dim3(block)>>>(arguments...);
    cudaDeviceSynchronize();
}
#define ESBMC_verify launch_kernel
#define ESBMC_verify_kernel launch_kernel
#define ESBMC_verify_kernel_c launch_kernel
#define ESBMC_verify_kernel_f launch_kernel
#define ESBMC_verify_kernel_four launch_kernel
#define ESBMC_verify_kernel_fuintint launch_kernel
#define ESBMC_verify_kernel_fuintt launch_kernel
#define ESBMC_verify_kernel_i launch_kernel
#define ESBMC_verify_kernel_intt launch_kernel
#define ESBMC_verify_kernel_three_args_iuull launch_kernel
#define ESBMC_verify_kernel_u launch_kernel
#define ESBMC_verify_kernel_ui launch_kernel
#define ESBMC_verify_kernel_with_three_args launch_kernel
#define ESBMC_verify_kernel_with_two_args launch_kernel
#define ESBMC_verify_kernel_one_arg launch_kernel
#define cudaThreadSynchronize cudaDeviceSynchronize
#define __ESBMC_assume(condition) do { if (!(condition)) exit(0); } while (0)
