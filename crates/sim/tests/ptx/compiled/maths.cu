// nvrtc: --std=c++11
// Functions of the mathematical library, single and double.

// RUN singles block=32
//   a f32[32] = i * 0.37 + 0.05
//   o0 f32[32] => sin(a[i]) within 2 ulp
//   o1 f32[32] => exp(a[i]) within 2 ulp
//   o2 f32[32] => log(a[i]) within 1 ulp
//   o3 f32[32] => pow(a[i], 1.7) within 4e-6
//   o4 f32[32] => atan2(a[i], 2) within 3 ulp
//   o5 f32[32] => cbrt(a[i]) within 1 ulp
//   o6 f32[32] => tanh(a[i]) within 2 ulp
//   o7 f32[32] => a[i] / 3 % 0.25 within 1e-6
extern "C" __global__ void singles(const float* a, float* o0, float* o1, float* o2, float* o3, float* o4, float* o5, float* o6, float* o7)
{
    int i = threadIdx.x;
    float x = a[i];
    o0[i] = sinf(x);
    o1[i] = expf(x);
    o2[i] = logf(x);
    o3[i] = powf(x, 1.7f);
    o4[i] = atan2f(x, 2.0f);
    o5[i] = cbrtf(x);
    o6[i] = tanhf(x);
    o7[i] = fmodf(x / 3.0f, 0.25f);
}

// RUN doubles block=32
//   a f64[32] = i * 0.37 + 0.05
//   o0 f64[32] => cos(a[i]) within 2 ulp
//   o1 f64[32] => exp(a[i]) within 1 ulp
//   o2 f64[32] => log2(a[i]) within 2 ulp
//   o3 f64[32] => pow(a[i], 1.7) within 2 ulp
//   o4 f64[32] => hypot(a[i], 2) within 2 ulp
//   o5 f64[32] => asin(a[i] / 12) within 2 ulp
//   o6 f64[32] => sinh(a[i]) within 2 ulp
//   o7 f64[32] => sqrt(a[i]) / 3
extern "C" __global__ void doubles(const double* a, double* o0, double* o1, double* o2, double* o3, double* o4, double* o5, double* o6, double* o7)
{
    int i = threadIdx.x;
    double x = a[i];
    o0[i] = cos(x);
    o1[i] = exp(x);
    o2[i] = log2(x);
    o3[i] = pow(x, 1.7);
    o4[i] = hypot(x, 2.0);
    o5[i] = asin(x / 12.0);
    o6[i] = sinh(x);
    o7[i] = sqrt(x) / 3.0;
}

// RUN large block=32
//   a f32[32] = 1000000 * (i + 1)
//   o f32[32] => sin(a[i]) within 2 ulp
extern "C" __global__ void large(const float* a, float* o)
{
    o[threadIdx.x] = sinf(a[threadIdx.x]);
}
