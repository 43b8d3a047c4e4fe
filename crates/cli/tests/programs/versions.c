// A library that tells its version as NVIDIA's libraries do.
int nvrtcVersion(int *major, int *minor) { return *major = MAJOR, *minor = MINOR, 0; }
int nvvmVersion(int *major, int *minor) { return *major = MAJOR, *minor = MINOR, 0; }
int cublasGetProperty(int part, int *value) { return *value = part ? MINOR : MAJOR, 0; }
int cudaRuntimeGetVersion(int *version) { return *version = MAJOR * 1000 + MINOR * 10, 0; }
int ncclGetVersion(int *version) { return *version = MAJOR * 10000 + MINOR * 100 + 9, 0; }
