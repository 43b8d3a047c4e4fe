"""Random hand-overs between three libraries in one process: cudarc and Millstream, in a module of
`crates/python/hand-overs`, and PyTorch or the small framework over the CUDA driver.

On a GPU, or over the drop-in driver of crates/libcuda. There is no PyTorch for that.
"""

import contextlib
import random

import numpy
import pytest

import millstream_example

ONE = numpy.ones(1, numpy.float32)
if millstream_example.add(ONE, ONE).__dlpack_device__()[0] != 2:
    pytest.skip("this runs on a simulated device", allow_module_level=True)

from framework import Array, Framework
from millstream_hand_overs import Play, waits

STREAMS = 2
# The steps behind one gate, which fit into the queues of a GPU.
BURST = 16


class Small:
    """The small framework, which copies arrays."""

    factor = 1.0

    def __init__(self):
        self.framework = Framework()
        self.streams = [self.framework.stream() for _ in range(STREAMS)]

    def on(self, stream):
        return contextlib.nullcontext(self.streams[stream])

    def busy(self, play, stream):
        """Blocks a stream of cudarc: a hand-over that waited for it would never end."""
        return play.close(stream)

    def wait(self):
        self.framework("cuStreamSynchronize", self.streams[0])

    def filled(self, value, stream):
        return Array(self.framework, stream, value, Play.N)

    def multiplied(self, array, stream):
        return self.framework.copied(array, stream)


class Torch:
    """PyTorch, which doubles arrays."""

    factor = 2.0

    def __init__(self):
        self.torch = pytest.importorskip("torch")
        if not self.torch.cuda.is_available():
            pytest.skip("PyTorch has no GPU")
        self.streams = [self.torch.cuda.Stream() for _ in range(STREAMS)]

    def on(self, stream):
        return self.torch.cuda.stream(self.streams[stream])

    def busy(self, play, stream):
        """Keeps a stream busy for a while. Nothing is blocked for ever: an allocation of PyTorch
        may wait for the device."""
        with self.on(stream):
            self.torch.cuda._sleep(2_000_000)

    def wait(self):
        self.streams[0].synchronize()

    def filled(self, value, stream):
        return self.torch.full((Play.N,), value, device="cuda")

    def multiplied(self, array, stream):
        return self.torch.from_dlpack(array) * self.factor


def step(play, third, generator, value):
    """Makes a step of one of the libraries."""
    kind = generator.randrange(4)
    if kind < 2:
        return play.step(value)
    source, target = (generator.randrange(Play.ARRAYS) for _ in range(2))
    with third.on(generator.randrange(STREAMS)) as stream:
        if kind == 2:
            play.take(target, third.filled(value, stream), value)
        else:
            array, value = play.give(source)
            play.take(target, third.multiplied(array, stream), value * third.factor)


@pytest.mark.parametrize("library", [Small, Torch], ids=["small", "pytorch"])
def test_ten_thousand_random_hand_overs_of_three_libraries_are_right(library):
    third, play, generator = library(), Play(9), random.Random(9)
    if waits() is not None:
        before = waits()
        third.wait()
        assert waits() > before, "waits are counted"
    for burst in range(10_000):
        # The allocators have their memory once the first bursts are over.
        before = waits() if burst > 8 else None
        busy = third.busy(play, burst % STREAMS)
        for value in range(BURST):
            step(play, third, generator, float(value + 1))
        if before is not None:
            assert waits() == before, "a hand-over waited on the host"
        assert busy is None or busy.open(), "the gate was not closed"
        if burst % 32 == 0:
            play.check()
        if play.hand_overs >= 10_000:
            break
    play.check()
    assert play.hand_overs >= 10_000
