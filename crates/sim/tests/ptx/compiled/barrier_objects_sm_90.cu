// nvrtc: --std=c++17 --gpu-architecture=compute_90 --include-path=crates/sim/tests/ptx/compiled --define-macro=NDEBUG --cccl
// The same for a newer architecture, for which the library makes other instructions.
#include "barrier_objects.cu"
