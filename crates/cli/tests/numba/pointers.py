"""A kernel that takes pointers is told that its arrays of 10 elements have 16, as in one of numba's
own tests; with an argument they have."""

import sys

import numpy
from numba import cuda, types

COUNT = 16
POINTER = types.CPointer(types.int32)


@cuda.jit(types.void(POINTER, types.int32, POINTER, POINTER, types.uint32))
def axpy(result, factor, x, y, count):
    i = cuda.grid(1)
    if i < count:
        result[i] = factor * x[i] + y[i]


values = numpy.arange(COUNT if len(sys.argv) > 1 else 10, dtype=numpy.int32)
x, y = cuda.to_device(values), cuda.to_device(2 * values)
result = cuda.device_array_like(x)
pointers = [array.__cuda_array_interface__["data"][0] for array in (result, x, y)]
axpy[1, 32](pointers[0], 5, pointers[1], pointers[2], COUNT)
assert (result.copy_to_host() == 7 * values).all()
