// The macros of CUDA's old samples that ESBMC's programs use.
#pragma once
#include <cuda_runtime.h>
#define CUDA_SAFE_CALL(call) call
#define CUT_SAFE_CALL(call) call
#define CUT_EXIT(argc, argv) return 0
#define CUT_CHECK_ERROR(text)
#define CUT_DEVICE_INIT(argc, argv)
