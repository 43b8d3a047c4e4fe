"""A small framework over the CUDA driver: streams and arrays with DLPack and
`__cuda_array_interface__`.
"""

import contextlib
import ctypes

import numpy

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

    def wait(self, waiting, stream):
        """Makes a stream wait for another."""
        event = ctypes.c_void_p()
        self("cuEventCreate", ctypes.byref(event), 2)
        self("cuEventRecord", event, stream)
        self("cuStreamWaitEvent", waiting, event, 0)
        self("cuEventDestroy_v2", event)

    def gate(self, stream, seconds):
        """Blocks a stream by a function of the C library, which needs no interpreter."""
        sleep = ctypes.cast(ctypes.CDLL(None).sleep, ctypes.c_void_p)
        self("cuLaunchHostFunc", stream, sleep, ctypes.c_void_p(seconds))

    @contextlib.contextmanager
    def capture(self, stream):
        """Captures a stream into a graph, and launches it if there is one: a stream that waits for
        the captured one, and is not joined, leaves none."""
        self("cuStreamBeginCapture_v2", stream, 2)
        yield
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        if self.library.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0:
            flags = ctypes.c_ulonglong(0)
            self("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, flags)
            self("cuGraphLaunch", executable, stream)

    def values(self, pointer, shape, stream):
        """Copies memory to the host on this stream, and waits for that."""
        values = numpy.empty(shape, numpy.float32)
        target = ctypes.c_void_p(values.ctypes.data)
        size = ctypes.c_size_t(values.nbytes)
        self("cuMemcpyDtoHAsync_v2", target, ctypes.c_uint64(pointer), size, stream)
        self("cuStreamSynchronize", stream)
        return values

    def taken(self, array, stream):
        """Takes an array over on this stream: its managed tensor and its lengths."""
        capsule = array.__dlpack__(stream=stream.value)
        managed = ctypes.cast(
            python.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(Managed)
        )
        python.PyCapsule_SetName(capsule, USED)
        tensor = managed.contents.tensor
        assert (tensor.device_type, tensor.device_id) == CUDA
        assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
        return managed, [tensor.shape[at] for at in range(tensor.ndim)]

    def consume(self, array, stream):
        """Takes an array over on this stream, copies it to the host, and calls its deleter."""
        managed, shape = self.taken(array, stream)
        values = self.values(managed.contents.tensor.data or 0, shape, stream)
        managed.contents.deleter(managed)
        return values

    def copied(self, array, stream):
        """Takes a vector over on this stream, copies it there, and calls its deleter."""
        managed, (count,) = self.taken(array, stream)
        copy = Array(self, stream, 0, count)
        source = ctypes.c_uint64(managed.contents.tensor.data)
        self("cuMemcpyDtoDAsync_v2", copy.pointer, source, ctypes.c_size_t(4 * count), stream)
        managed.contents.deleter(managed)
        return copy


class Array:
    """An array of the framework, which is freed when all its exports are let go."""

    # What was exported, which must not be freed before its deleter is called.
    exported = []

    def __init__(self, framework, stream, value, count=N):
        self.framework, self.stream, self.count = framework, stream, count
        self.pointer = ctypes.c_uint64()
        bytes_ = ctypes.c_size_t(4 * count)
        framework("cuMemAllocAsync", ctypes.byref(self.pointer), bytes_, stream)
        pattern = ctypes.c_uint(int(numpy.float32(value).view(numpy.uint32)))
        framework("cuMemsetD32Async", self.pointer, pattern, ctypes.c_size_t(count), stream)
        self.exports, self.deletions = 0, []

    def __dlpack_device__(self):
        return CUDA

    def __dlpack__(self, stream=None):
        self.framework.wait(ctypes.c_void_p(stream), self.stream)
        shape = (ctypes.c_int64 * 1)(self.count)
        deleter = Deleter(lambda managed: self.delete())
        tensor = Tensor(self.pointer.value, *CUDA, 1, 2, 32, 1, shape, None, 0)
        managed = Managed(tensor, None, deleter)
        self.exports += 1
        self.exported.append((shape, deleter, managed))
        address = ctypes.cast(ctypes.byref(managed), ctypes.c_void_p)
        return python.PyCapsule_New(address, b"dltensor", None)

    def again(self, value):
        """Returns another array on the same stream."""
        return Array(self.framework, self.stream, value)

    def delete(self):
        """Frees the memory in the order of the stream that allocated it, after the last export."""
        self.exports -= 1
        if self.exports <= 0:
            self.deletions.append(self.framework.library.cuMemFreeAsync(self.pointer, self.stream))


class Described:
    """An array of the framework that has `__cuda_array_interface__` only."""

    def __init__(self, framework, on, value, /, **changes):
        self.array = Array(framework, on, value)
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (N,),
            "typestr": "<f4",
            "data": (self.array.pointer.value, False),
            "strides": None,
            "stream": on.value,
        } | changes

    def __del__(self):
        self.array.delete()


class Stream:
    """A stream of the framework, as `cuda.core` and CuPy present theirs."""

    def __init__(self, stream, version=0):
        self.stream, self.version = stream, version

    def __cuda_stream__(self):
        return (self.version, self.stream.value or 0)
