// nvrtc: --std=c++11
// Control flow as compilers make it: tables of targets, functions that call themselves, pointers to functions, virtual functions.

// RUN switches block=32
//   a s32[32] = i % 12 - 1
//   o s32[32] = i + 10 => a[i] == 0 ? 3 : a[i] == 1 ? 17 + i : a[i] == 2 ? (i + 10) * (i + 10) : a[i] == 3 ? (i + 10) / 3 : a[i] == 4 ? (i + 10) % 5 : a[i] == 5 ? clz32(i + 10) : a[i] == 6 ? i ^ 55 : a[i] == 7 ? (i + 10) << 3 : -1
extern "C" __global__ void switches(const int* a, int* o)
{
    int i = threadIdx.x, v = o[i], r;
    switch (a[i]) {
    case 0: r = 3; break;
    case 1: r = v + 7; break;
    case 2: r = v * v; break;
    case 3: r = v / 3; break;
    case 4: r = v % 5; break;
    case 5: r = __clz(v); break;
    case 6: r = i ^ 55; break;
    case 7: r = v << 3; break;
    default: r = -1;
    }
    o[i] = r;
}

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

// RUN recursion block=16
//   o s32[16] => {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610}
extern "C" __global__ void recursion(int* o)
{
    o[threadIdx.x] = fibonacci(threadIdx.x);
}

__device__ __noinline__ int odd(int n);
__device__ __noinline__ int even(int n)
{
    return n == 0 ? 1 : odd(n - 1);
}
__device__ __noinline__ int odd(int n)
{
    return n == 0 ? 0 : even(n - 1);
}

// RUN mutual block=64
//   o s32[64] => i % 2 == 0
extern "C" __global__ void mutual(int* o)
{
    o[threadIdx.x] = even(threadIdx.x);
}

struct Node {
    int value;
    Node* left;
    Node* right;
};

__device__ __noinline__ int sum(const Node* node)
{
    int own[4];
    for (int i = 0; i < 4; i++)
        own[i] = node->value * i;
    int total = own[node->value & 3];
    if (node->left)
        total += sum(node->left);
    if (node->right)
        total += sum(node->right);
    return total;
}

// RUN tree block=32
//   o s32[32] => sum(7, (i + j) * ((i + j) & 3))
extern "C" __global__ void tree(int* o)
{
    Node nodes[7];
    for (int i = 0; i < 7; i++) {
        nodes[i].value = i + (int)threadIdx.x;
        nodes[i].left = 2 * i + 1 < 7 ? &nodes[2 * i + 1] : 0;
        nodes[i].right = 2 * i + 2 < 7 ? &nodes[2 * i + 2] : 0;
    }
    o[threadIdx.x] = sum(nodes);
}

typedef int (*Function)(int, int);
__device__ __noinline__ int add(int a, int b)
{
    return a + b;
}
__device__ __noinline__ int multiply(int a, int b)
{
    return a * b;
}
__device__ __noinline__ int subtract(int a, int b)
{
    return a - b;
}
__device__ Function functions[3] = {add, multiply, subtract};

// RUN pointers block=32
//   o s32[32] => (i + 1) % 3 == 0 ? i + 5 : (i + 1) % 3 == 1 ? i * 5 : i - 5
//   p s32[32] => i % 2 ? i + 7 : i - 7
//   k s32 = 1
extern "C" __global__ void pointers(int* o, int* p, int k)
{
    int i = threadIdx.x;
    o[i] = functions[(i + k) % 3](i, 5);
    Function f = i & 1 ? add : subtract;
    p[i] = f(i, 7);
}

struct Shape {
    float size;
    __device__ Shape(float size) : size(size) {}
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    __device__ Square(float size) : Shape(size) {}
    __device__ float area() const { return size * size; }
};
struct Circle : Shape {
    __device__ Circle(float size) : Shape(size) {}
    __device__ float area() const { return size * size * 3.0f; }
};

// RUN virtuals block=32
//   o f32[32] => i % 2 ? i * i : 3 * i * i
extern "C" __global__ void virtuals(float* o)
{
    int i = threadIdx.x;
    Square square(i);
    Circle circle(i);
    const Shape* shape = i & 1 ? (const Shape*)&square : (const Shape*)&circle;
    o[i] = shape->area();
}

template <class F> __device__ float twice(F f, float x)
{
    return f(f(x));
}

// RUN lambdas block=32
//   o f32[32] => (i * 0.5 + 1) * 0.5 + 1
//   k f32 = 0.5
extern "C" __global__ void lambdas(float* o, float k)
{
    int i = threadIdx.x;
    o[i] = twice([=](float x) { return x * k + 1; }, (float)i);
}

struct Big {
    int x[12];
    double d;
};
__device__ __noinline__ Big twist(Big b, int k)
{
    for (int i = 0; i < 12; i++)
        b.x[i] = b.x[(i + k) % 12] + k;
    b.d *= 2;
    return b;
}

// RUN structs block=12
//   b s32(14) = i < 12 ? i * i : i == 13 ? 0x40080000 : 0
//   o s32[12] => i == 0 ? sum(12, j * j * (j + 1)) + 6 : 0
// RUN locals block=32
//   o s32[32] => (i % 16) * 3 % 16
//   n s32 = 3
extern "C" __global__ void structs(Big b, int* o)
{
    int i = threadIdx.x;
    if (i != 0)
        return;
    Big r = twist(b, i);
    int s = 0;
    for (int j = 0; j < 12; j++)
        s += r.x[j] * (j + 1);
    o[i] = s + (int)r.d;
}

extern "C" __global__ void locals(int* o, int n)
{
    int a[16];
    for (int i = 0; i < 16; i++)
        a[i] = i * n;
    o[threadIdx.x] = a[threadIdx.x % 16] % 16;
}

__constant__ float coefficients[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter = 5;
__device__ int* where = &counter;
__device__ const char text[] = "hello";
__device__ const char* texts[2] = {text, text + 2};

// RUN variables block=32
//   o f32[32] => i % 8 + 1
//   n s32[32] => 5 + (i % 2 ? (i % 3 == 2 ? 111 : 108) : i % 3 == 0 ? 104 : i % 3 == 1 ? 101 : 108)
extern "C" __global__ void variables(float* o, int* n)
{
    int i = threadIdx.x;
    o[i] = coefficients[i % 8];
    n[i] = *where + texts[i & 1][i % 3];
}

// RUN dynamic block=64 shared=256
//   o s32[64] => (63 - i) * (63 - i)
extern "C" __global__ void dynamic(int* o)
{
    extern __shared__ int d[];
    int i = threadIdx.x;
    d[i] = i * i;
    __syncthreads();
    o[i] = d[blockDim.x - 1 - i];
}
