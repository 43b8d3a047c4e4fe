"""Programs over NVIDIA's cuda.core on the drop-in driver."""

import numpy
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

DEVICE = Device()
DEVICE.set_current()

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
template <typename T> __global__ void fill(T* out, T value, unsigned n) {
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) out[i] = value;
}
__global__ void reverse(int* values, int n) {
    extern __shared__ int copy[];
    int i = threadIdx.x;
    copy[i] = values[i];
    __syncthreads();
    values[i] = copy[n - 1 - i];
}
"""


def kernels(*names):
    options = ProgramOptions(std="c++17", arch=f"sm_{DEVICE.arch}")
    program = Program(SOURCE, code_type="c++", options=options)
    module = program.compile("ptx", name_expressions=names)
    return [module.get_kernel(name) for name in names]


def upload(values, stream):
    buffer = DEVICE.memory_resource.allocate(values.nbytes, stream=stream)
    (error,) = driver.cuMemcpyHtoDAsync(
        int(buffer.handle), values.ctypes.data, values.nbytes, stream.handle
    )
    assert error == 0
    return buffer


def download(buffer, values, stream):
    (error,) = driver.cuMemcpyDtoHAsync(
        values.ctypes.data, int(buffer.handle), values.nbytes, stream.handle
    )
    assert error == 0
    stream.sync()
    return values


def test_nvrtc_to_a_launch():
    stream = DEVICE.create_stream()
    (saxpy,) = kernels("saxpy")
    x = numpy.random.rand(5000).astype(numpy.float32)
    y = numpy.random.rand(5000).astype(numpy.float32)
    x_on_device, y_on_device = upload(x, stream), upload(y, stream)
    config = LaunchConfig(grid=20, block=256)
    count = numpy.uint32(5000)
    launch(stream, config, saxpy, numpy.float32(2), x_on_device, y_on_device, count)
    result = download(y_on_device, numpy.empty_like(y), stream)
    numpy.testing.assert_allclose(result, 2 * x + y, rtol=1e-6)


def test_kernels_of_templates():
    stream = DEVICE.create_stream()
    for kernel, dtype in zip(kernels("fill<int>", "fill<double>"), ("int32", "float64")):
        out = upload(numpy.zeros(300, dtype), stream)
        config = LaunchConfig(grid=1, block=64)
        launch(stream, config, kernel, out, numpy.dtype(dtype).type(7), numpy.uint32(300))
        assert (download(out, numpy.empty(300, dtype), stream) == 7).all()


def test_dynamic_shared_memory():
    stream = DEVICE.create_stream()
    (reverse,) = kernels("reverse")
    values = numpy.arange(128, dtype=numpy.int32)
    buffer = upload(values, stream)
    config = LaunchConfig(grid=1, block=128, shmem_size=512)
    launch(stream, config, reverse, buffer, numpy.int32(128))
    result = download(buffer, numpy.empty_like(values), stream)
    numpy.testing.assert_array_equal(result, values[::-1])


def test_two_streams_and_an_event():
    first, second = DEVICE.create_stream(), DEVICE.create_stream()
    (saxpy,) = kernels("saxpy")
    values = numpy.ones(1000, numpy.float32)
    x, y = upload(values, first), upload(values, first)
    config = LaunchConfig(grid=4, block=256)
    launch(first, config, saxpy, numpy.float32(1), x, y, numpy.uint32(1000))
    second.wait(first.record())
    launch(second, config, saxpy, numpy.float32(1), x, y, numpy.uint32(1000))
    assert (download(y, numpy.empty_like(values), second) == 3).all()


def test_properties_of_the_device_and_of_a_kernel():
    properties = DEVICE.properties
    assert properties.warp_size == 32
    assert properties.max_threads_per_block == 1024
    assert DEVICE.compute_capability == (9, 0)
    (saxpy,) = kernels("saxpy")
    assert saxpy.attributes.max_threads_per_block == 1024
    assert saxpy.num_arguments == 4
