// nvrtc: --std=c++11
// The heap of kernels, objects with virtual destructors on it, and managed variables.

// RUN lists grid=2 block=64
//   o u32[128] => i % 64 * 3 + 1
extern "C" __global__ void lists(unsigned* o)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* own = (unsigned*)malloc((threadIdx.x + 1) * sizeof(unsigned));
    for (unsigned at = 0; at <= threadIdx.x; at++)
        own[at] = at * 3;
    o[i] = own[threadIdx.x] + 1;
    free(own);
}

struct Shape {
    __device__ virtual unsigned area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    unsigned side;
    __device__ Square(unsigned side) : side(side) {}
    __device__ unsigned area() const { return side * side; }
};
struct Row : Shape {
    unsigned* sides;
    __device__ Row(unsigned side) : sides(new unsigned[2]) { sides[0] = side; sides[1] = 2; }
    __device__ ~Row() { delete[] sides; }
    __device__ unsigned area() const { return sides[0] * sides[1]; }
};

// RUN objects block=32
//   o u32[32] => i % 2 ? 2 * i : i * i
extern "C" __global__ void objects(unsigned* o)
{
    unsigned i = threadIdx.x;
    Shape* shape = i % 2 ? (Shape*)new Row(i) : new Square(i);
    o[i] = shape->area();
    delete shape;
}

// RUN exhausted block=1
//   o u32[4] => {1, 1, 1, 1}
extern "C" __global__ void exhausted(unsigned* o)
{
    void* half = malloc(5 << 20);
    void* other = malloc(5 << 20);
    o[0] = half != 0;
    o[1] = other == 0;
    o[2] = malloc(1ull << 63) == 0;
    free(half);
    free(other);
    other = malloc(5 << 20);
    o[3] = other != 0;
    free(other);
}

// RUN freed_twice block=1
//   FAULTS at which no live block of the heap starts: allocation
extern "C" __global__ void freed_twice()
{
    int* own = (int*)malloc(4);
    free(own);
    free(own);
}

// RUN freed_inside block=1
//   FAULTS at which no live block of the heap starts: allocation
extern "C" __global__ void freed_inside()
{
    free((int*)malloc(8) + 1);
}

// RUN freed_elsewhere block=1
//   o u32[1] => 0
//   FAULTS at which no live block of the heap starts: allocation
extern "C" __global__ void freed_elsewhere(unsigned* o)
{
    free(o);
}

// RUN used_after_free block=2
//   FAULTS are used after the end of allocation
extern "C" __global__ void used_after_free()
{
    volatile int* own = (volatile int*)malloc(16);
    for (int at = 0; at < 2; at++) {
        own[at] = at;
        if (at == 0)
            free((void*)own);
    }
}

// RUN used_beyond block=1
//   FAULTS write of 4 bytes
extern "C" __global__ void used_beyond()
{
    int* own = (int*)malloc(10);
    own[2] = 1;
}

__managed__ unsigned counters[4] = {5, 6, 7};

// RUN managed block=4
//   o u32[4] => i < 3 ? 5 + i : 0
extern "C" __global__ void managed(unsigned* o)
{
    o[threadIdx.x] = counters[threadIdx.x]++;
}
