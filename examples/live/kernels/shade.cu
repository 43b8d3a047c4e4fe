// The brightness of each character of a picture, from 0 to 1. Edit this while the example runs.
extern "C" __global__ void shade(float* out, int width, int height, float seconds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= width * height) return;
  // A character is twice as high as it is wide.
  float x = 2.0f * (i % width) / width - 1.0f;
  float y = (2.0f * (i / width) / height - 1.0f) * 2.0f * height / width;
  float distance = sqrtf(x * x + y * y);
  out[i] = 0.5f + 0.5f * sinf(12.0f * distance - 3.0f * seconds);
}
