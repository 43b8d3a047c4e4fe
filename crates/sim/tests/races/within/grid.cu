// nvrtc: --cccl --std=c++17
// Kernels whose blocks wait for each other at the barrier of the grid.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Each thread reads, behind the barrier, what the thread opposite to it in the grid has written.
extern "C" __global__ void reverse_grid(unsigned* x, unsigned* y) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = i;
  cg::this_grid().sync();
  y[i] = x[gridDim.x * blockDim.x - 1 - i];
}

// The same without the barrier between the two.
extern "C" __global__ void reverse_grid_unsynced(unsigned* x, unsigned* y) {
  cg::this_grid().sync();
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = i;
  y[i] = x[gridDim.x * blockDim.x - 1 - i];
}

// Each round moves every element to the next thread. A second barrier keeps the next round from
// writing what other blocks still read.
extern "C" __global__ void rotate_grid(unsigned* x, unsigned* y, unsigned rounds) {
  cg::grid_group grid = cg::this_grid();
  unsigned i = grid.thread_rank();
  x[i] = i;
  grid.sync();
  for (unsigned round = 0; round < rounds; round++) {
    unsigned next = x[(i + 1) % grid.size()];
    grid.sync();
    x[i] = next;
    grid.sync();
  }
  y[i] = x[i];
}

// The same with one barrier for each round.
extern "C" __global__ void rotate_grid_unsynced(unsigned* x, unsigned* y, unsigned rounds) {
  cg::grid_group grid = cg::this_grid();
  unsigned i = grid.thread_rank();
  x[i] = i;
  grid.sync();
  for (unsigned round = 0; round < rounds; round++) {
    unsigned next = x[(i + 1) % grid.size()];
    x[i] = next;
    grid.sync();
  }
  y[i] = x[i];
}

// One thread stores whether the grid can synchronise.
extern "C" __global__ void grid_is_valid(unsigned* x, unsigned* y) {
  if (cg::this_grid().thread_rank() == 0) y[0] = cg::this_grid().is_valid();
}
