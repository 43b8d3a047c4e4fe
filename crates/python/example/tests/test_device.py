"""The example package with memory of the device, beside a small framework over the CUDA driver.

On a GPU, or over the drop-in driver of crates/libcuda.
"""

import ctypes
import time

import numpy
import pytest

import millstream_example

ONE = numpy.ones(1, numpy.float32)
if millstream_example.add(ONE, ONE).__dlpack_device__()[0] != 2:
    pytest.skip("this runs on a simulated device", allow_module_level=True)

N = 10_000
CUDA = (2, 0)


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensor."""


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"


class Framework:
    """Streams and arrays by calls of the driver."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    def stream(self):
        stream = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(stream), 1)
        return stream

    def consume(self, array, stream):
        """Takes an array over on this stream, copies it to the host, and calls its deleter."""
        capsule = array.__dlpack__(stream=stream.value)
        managed = ctypes.cast(
            python.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(Managed)
        )
        python.PyCapsule_SetName(capsule, USED)
        tensor = managed.contents.tensor
        assert (tensor.device_type, tensor.device_id) == CUDA
        assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
        values = numpy.empty([tensor.shape[at] for at in range(tensor.ndim)], numpy.float32)
        pointer = ctypes.c_uint64(tensor.data or 0)
        target = ctypes.c_void_p(values.ctypes.data)
        self("cuMemcpyDtoHAsync_v2", target, pointer, ctypes.c_size_t(values.nbytes), stream)
        managed.contents.deleter(managed)
        self("cuStreamSynchronize", stream)
        return values


class Array:
    """An array of the framework, which exports it once."""

    def __init__(self, framework, stream, value):
        self.framework, self.stream = framework, stream
        self.pointer = ctypes.c_uint64()
        bytes_ = ctypes.c_size_t(4 * N)
        framework("cuMemAllocAsync", ctypes.byref(self.pointer), bytes_, stream)
        pattern = ctypes.c_uint(int(numpy.float32(value).view(numpy.uint32)))
        framework("cuMemsetD32Async", self.pointer, pattern, ctypes.c_size_t(N), stream)
        self.deletions = []

    def __dlpack_device__(self):
        return CUDA

    def __dlpack__(self, stream=None):
        event = ctypes.c_void_p()
        self.framework("cuEventCreate", ctypes.byref(event), 2)
        self.framework("cuEventRecord", event, self.stream)
        self.framework("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
        self.framework("cuEventDestroy_v2", event)
        self.shape = (ctypes.c_int64 * 1)(N)
        self.deleter = Deleter(lambda managed: self.delete())
        tensor = Tensor(self.pointer.value, *CUDA, 1, 2, 32, 1, self.shape, None, 0)
        self.managed = Managed(tensor, None, self.deleter)
        address = ctypes.cast(ctypes.byref(self.managed), ctypes.c_void_p)
        return python.PyCapsule_New(address, b"dltensor", None)

    def delete(self):
        """Frees the memory in the order of the stream that allocated it."""
        self.deletions.append(self.framework.library.cuMemFreeAsync(self.pointer, self.stream))


@pytest.fixture(scope="module")
def framework():
    return Framework()


def test_a_result_stays_on_the_device_and_is_an_argument_once(framework):
    ones = numpy.ones(N, numpy.float32)
    two = millstream_example.add(ones, ones)
    assert two.__dlpack_device__() == CUDA
    four = millstream_example.add(two, millstream_example.add(ones, ones))
    found = framework.consume(four, framework.stream())
    numpy.testing.assert_array_equal(found, numpy.full(N, 4, numpy.float32))
    with pytest.raises(BufferError, match="before"):
        millstream_example.add(two, ones)


def test_arrays_of_a_framework_are_ordered_with_its_streams(framework):
    streams = [framework.stream() for _ in range(2)]
    given = []
    for step in range(200):
        a = Array(framework, streams[step % 2], step)
        b = Array(framework, streams[step // 2 % 2], 1)
        given += [a, b]
        total = millstream_example.add(a, b)
        found = framework.consume(total, streams[step // 4 % 2])
        numpy.testing.assert_array_equal(found, numpy.full(N, step + 1, numpy.float32))
    # The deleters are called on a thread of Millstream.
    until = time.monotonic() + 20
    while not all(array.deletions for array in given) and time.monotonic() < until:
        time.sleep(0.01)
    assert [array.deletions for array in given] == [[0]] * len(given)


def test_default_streams_are_refused(framework):
    ones = numpy.ones(N, numpy.float32)
    total = millstream_example.add(ones, ones)
    for stream in [None, 0, 1, 2, -1]:
        with pytest.raises(BufferError, match="stream of its own"):
            total.__dlpack__(stream=stream)
    # It is still there.
    assert framework.consume(total, framework.stream())[0] == 2
