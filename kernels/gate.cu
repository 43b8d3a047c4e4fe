// nvrtc:
// A kernel that keeps its stream busy until the host, or another stream, lets it go.

// Launch it with one thread. It ends once `*flag`, in memory that can be written while a kernel runs
// (pinned or managed), is no longer 0. In between it sleeps, so that it takes little of the multiprocessor it sits on.
extern "C" __global__ void gate(const volatile unsigned int* flag) {
  while (*flag == 0) __nanosleep(1000);
}
