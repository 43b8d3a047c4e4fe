"""A kernel of one stream reads what a kernel of another stream writes. With an argument the second
stream waits for an event that the first one records."""

import sys

import numpy
from numba import cuda


@cuda.jit
def double(source, target):
    i = cuda.grid(1)
    if i < source.size:
        target[i] = 2 * source[i]


first, second = cuda.stream(), cuda.stream()
values = cuda.to_device(numpy.arange(4096, dtype=numpy.float32), stream=first)
doubled = cuda.device_array_like(values)
again = cuda.device_array_like(values)
double[16, 256, first](values, doubled)
if len(sys.argv) > 1:
    event = cuda.event()
    event.record(first)
    event.wait(second)
double[16, 256, second](doubled, again)
cuda.synchronize()
assert (again.copy_to_host() == 4 * numpy.arange(4096)).all()
