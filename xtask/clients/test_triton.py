"""Kernels of Triton on the drop-in driver, without PyTorch; the arrays are cuda.core's."""

import numpy
import triton
import triton.language as tl
from cuda.core import Device

DEVICE = Device()
DEVICE.set_current()


class Array:
    """An array of the device, in the form in which Triton takes arguments."""

    def __init__(self, values):
        self.values = numpy.ascontiguousarray(values)
        self.stream = DEVICE.default_stream
        self.buffer = DEVICE.memory_resource.allocate(self.values.nbytes, stream=self.stream)
        self.dtype = triton.language.dtype(
            {"float32": "fp32", "int32": "int32", "float16": "fp16", "int8": "int8"}[str(self.values.dtype)]
        )
        self.copy(int(self.buffer.handle), self.values.ctypes.data)

    def copy(self, target, source):
        from cuda.bindings import driver

        (error,) = driver.cuMemcpy(target, source, self.values.nbytes)
        assert error == 0

    def data_ptr(self):
        return int(self.buffer.handle)

    def host(self):
        """Returns the values that the device has now."""
        self.stream.sync()
        self.copy(self.values.ctypes.data, self.data_ptr())
        return self.values


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, total, mask=mask)


def test_elementwise():
    x, y = (numpy.random.rand(1000).astype(numpy.float32) for _ in range(2))
    out = Array(numpy.zeros_like(x))
    add[(4,)](Array(x), Array(y), out, 1000, BLOCK=256)
    numpy.testing.assert_array_equal(out.host(), x + y)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    result = powers / tl.sum(powers, axis=0)
    tl.store(out + row * columns + offsets, result, mask=offsets < columns)


def test_softmax():
    x = numpy.random.rand(7, 100).astype(numpy.float32)
    out = Array(numpy.zeros_like(x))
    softmax[(7,)](Array(x), out, 100, BLOCK=128)
    powers = numpy.exp(x - x.max(axis=1, keepdims=True))
    numpy.testing.assert_allclose(out.host(), powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


@triton.jit
def normalise(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=mask, other=0.0)
    centred = tl.where(mask, values - tl.sum(values, axis=0) / columns, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    tl.store(out + row * columns + offsets, centred * tl.rsqrt(variance + 1e-5), mask=mask)


def test_layer_normalisation():
    x = numpy.random.rand(5, 200).astype(numpy.float32)
    out = Array(numpy.zeros_like(x))
    normalise[(5,)](Array(x), out, 200, BLOCK=256)
    centred = x - x.mean(axis=1, keepdims=True)
    expected = centred / numpy.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    numpy.testing.assert_allclose(out.host(), expected, rtol=1e-4, atol=1e-5)


@triton.jit
def total(x, out, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + offsets, mask=offsets < count, other=0), axis=0))


def test_reduction_with_an_atomic():
    x = numpy.arange(3000, dtype=numpy.int32)
    out = Array(numpy.zeros(1, numpy.int32))
    total[(3,)](Array(x), out, 3000, BLOCK=1024)
    assert out.host()[0] == x.sum()


@triton.jit
def scan(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.cumsum(tl.load(x + offsets), axis=0))


def test_scan():
    x = numpy.arange(512, dtype=numpy.int32)
    out = Array(numpy.zeros_like(x))
    scan[(1,)](Array(x), out, BLOCK=512)
    numpy.testing.assert_array_equal(out.host(), numpy.cumsum(x))
