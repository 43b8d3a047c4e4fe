"""The example package with memory of the device, beside a small framework over the CUDA driver.

On a GPU, or over the drop-in driver of crates/libcuda.
"""

import ctypes
import gc
import os
import pathlib
import random
import subprocess
import sys
import time
import weakref

import numpy
import pytest

import millstream_example

ONE = numpy.ones(1, numpy.float32)
if millstream_example.add(ONE, ONE).__dlpack_device__()[0] != 2:
    pytest.skip("this runs on a simulated device", allow_module_level=True)

from framework import CUDA, N, Array, Described, Framework, Stream
from millstream_hand_overs import refused_swap


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


def full(value):
    return numpy.full(N, value, numpy.float32)


def until(is_so):
    """Waits for something that a thread of Millstream does."""
    end = time.monotonic() + 20
    while not is_so() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert is_so()


def test_described_arrays_are_ordered_with_the_stream_that_they_name(framework):
    theirs, other = framework.stream(), framework.stream()
    arrays = []
    for step in range(20):
        # Blocks the fill, so that a missing order shows.
        if step == 0:
            framework.gate(theirs, 1)
        a = Described(framework, theirs, step)
        b = Described(framework, theirs, 1, strides=(4,), mask=None)
        arrays += [weakref.ref(a), weakref.ref(b)]
        total = millstream_example.add(a, b)
        del a, b
        numpy.testing.assert_array_equal(framework.consume(total, other), full(step + 1))
    # They were kept until the kernels were complete, and are let go on a thread of Millstream.
    until(lambda: all(array() is None for array in arrays))


def test_an_array_that_names_no_stream_is_used_at_once(framework):
    theirs = framework.stream()
    a = Described(framework, theirs, 3, stream=None)
    framework("cuStreamSynchronize", theirs)
    total = millstream_example.add(a, a)
    numpy.testing.assert_array_equal(framework.consume(total, theirs), full(6))


def test_a_result_is_handed_over_to_a_stream_by_name(framework):
    theirs, ours = framework.stream(), framework.stream()
    for step in range(20):
        a = Array(framework, ours, step)
        if step == 0:
            framework.gate(ours, 1)
        lent = millstream_example.add(a, a).on(Stream(theirs))
        described = lent.__cuda_array_interface__
        pointer, read_only = described.pop("data")
        assert described == {
            "version": 3,
            "shape": (N,),
            "typestr": "<f4",
            "strides": None,
            "stream": theirs.value,
        }
        assert not read_only
        # It is an argument too, in the order of that stream.
        again = millstream_example.add(lent, lent)
        numpy.testing.assert_array_equal(framework.values(pointer, N, theirs), full(2 * step))
        numpy.testing.assert_array_equal(framework.consume(again, theirs), full(4 * step))
        del lent


def test_a_result_is_handed_over_once(framework):
    ones = numpy.ones(N, numpy.float32)
    total = millstream_example.add(ones, ones)
    lent = total.on(Stream(framework.stream()))
    with pytest.raises(BufferError, match="before"):
        total.on(Stream(framework.stream()))
    with pytest.raises(BufferError, match="before"):
        framework.consume(total, framework.stream())
    del lent


def test_a_function_works_on_a_stream_of_the_caller(framework):
    theirs = framework.stream()
    framework.gate(theirs, 1)
    a = Array(framework, theirs, 5)
    total = millstream_example.add(a, a, stream=Stream(theirs))
    numpy.testing.assert_array_equal(framework.consume(total, theirs), full(10))
    # As a property, which older frameworks have.
    old = type("Old", (), {"__cuda_stream__": (0, theirs.value)})()
    total = millstream_example.add(a.again(6), a.again(6), stream=old)
    numpy.testing.assert_array_equal(framework.consume(total, theirs), full(12))


def test_a_stream_of_ours_is_one_of_a_framework(framework):
    stream = millstream_example.stream(numpy.ones(1, numpy.float32))
    version, handle = stream.__cuda_stream__()
    assert version == 0
    raw = ctypes.c_void_p(handle)
    a = Array(framework, raw, 4)
    total = millstream_example.add(a, a, stream=stream)
    numpy.testing.assert_array_equal(framework.consume(total, raw), full(8))


@pytest.mark.parametrize(
    "changes, error, reason",
    [
        ({"version": 2}, BufferError, "version 2 names no stream"),
        ({"typestr": "<f8"}, BufferError, "elements are <f8, not <f4"),
        ({"typestr": ">f4"}, BufferError, "elements are >f4"),
        ({"typestr": "<f2"}, BufferError, "elements are <f2"),
        ({"strides": (8,)}, BufferError, "not contiguous"),
        ({"strides": (4, 4)}, BufferError, "not contiguous"),
        ({"shape": (-1,)}, BufferError, "not contiguous"),
        ({"shape": (2**40, 2**40)}, BufferError, "not contiguous"),
        ({"shape": (N + 1,)}, ValueError, "not within"),
        ({"shape": "N"}, TypeError, "shape"),
        ({"mask": 1}, BufferError, "masked"),
        ({"stream": 0}, ValueError, "default stream"),
        ({"stream": 1}, ValueError, "default stream"),
        ({"stream": 2}, ValueError, "default stream"),
        ({"data": 5}, TypeError, "data"),
    ],
)
def test_described_arrays_that_cannot_be_used_are_refused(framework, changes, error, reason):
    theirs = framework.stream()
    bad, good = Described(framework, theirs, 1, **changes), Described(framework, theirs, 2)
    with pytest.raises(error, match=reason):
        millstream_example.add(good, bad)
    # The refused object is not kept, and the other is still usable.
    bad, gone = None, weakref.ref(bad)
    until(lambda: gone() is None)
    total = millstream_example.add(good, good)
    numpy.testing.assert_array_equal(framework.consume(total, theirs), full(4))


def test_nothing_of_ours_becomes_part_of_a_capture_of_the_frameworks_stream(framework):
    theirs, other = framework.stream(), framework.stream()
    a, b = Array(framework, theirs, 1), Described(framework, other, 2)
    adopted = millstream_example.add(b, b, stream=Stream(theirs))
    ours = millstream_example.stream(numpy.ones(1, numpy.float32))
    handed_out = ctypes.c_void_p(ours.__cuda_stream__()[1])
    for captured, call in [
        # The argument's work is on the captured stream.
        (theirs, lambda: millstream_example.add(a, a)),
        # The function works on it.
        (theirs, lambda: millstream_example.add(b, b, stream=Stream(theirs))),
        (handed_out, lambda: millstream_example.add(b, b, stream=ours)),
    ]:
        with framework.capture(captured), pytest.raises(Exception, match="captur"):
            call()
    numpy.testing.assert_array_equal(framework.consume(adopted, other), full(4))
    # The first was freed by its last export.
    total = millstream_example.add(a.again(1), b, stream=Stream(theirs))
    numpy.testing.assert_array_equal(framework.consume(total, theirs), full(3))


def test_a_graph_never_writes_an_argument_that_is_only_read(framework):
    theirs = framework.stream()
    target, read_only = Array(framework, theirs, 1), Described(framework, theirs, 2)
    assert "which is passed as `&`" in refused_swap(target, read_only)
    pointer = read_only.array.pointer.value
    numpy.testing.assert_array_equal(framework.values(pointer, N, theirs), full(2))


def test_freed_memory_and_what_is_no_array_are_refused(framework):
    theirs = framework.stream()
    freed = Described(framework, theirs, 1)
    framework("cuMemFreeAsync", freed.array.pointer, theirs)
    framework("cuStreamSynchronize", theirs)
    freed.array.delete = lambda: None
    with pytest.raises(ValueError, match="no memory of a GPU"):
        millstream_example.add(freed, freed)
    with pytest.raises(TypeError, match="DLPack"):
        millstream_example.add(object(), freed)
    described = type("Empty", (), {"__cuda_array_interface__": {}})()
    with pytest.raises(TypeError, match="has no `data`"):
        millstream_example.add(described, described)


def test_streams_that_cannot_be_used_are_refused(framework):
    a = Array(framework, framework.stream(), 1)
    for stream, error, reason in [
        (object(), TypeError, "__cuda_stream__"),
        (Stream(ctypes.c_void_p(5), version=1), BufferError, "version 1"),
        (Stream(ctypes.c_void_p(0)), ValueError, "default stream"),
        (Stream(ctypes.c_void_p(1)), ValueError, "default stream"),
    ]:
        with pytest.raises(error, match=reason):
            millstream_example.add(a, a, stream=stream)


def test_empty_arrays_need_no_memory(framework):
    theirs = framework.stream()
    empty = Described(framework, theirs, 1, shape=(0, 3), data=(0, False))
    total = millstream_example.add(empty, empty)
    assert total.shape == [0, 3]
    assert framework.consume(total, theirs).shape == (0, 3)


def test_regions_read_arrays_of_a_framework_and_leave_them_as_they_are(framework):
    theirs = framework.stream()
    framework.gate(theirs, 1)
    x = Described(framework, theirs, 2, shape=(100, 100))
    pointer = x.array.pointer.value
    x.__cuda_array_interface__["data"] = (pointer, True)
    bias = numpy.arange(100, dtype=numpy.float32) / 50
    weights = numpy.zeros((100, 100), numpy.float32)
    found = framework.consume(millstream_example.probabilities(x, weights, bias), theirs)
    odds = numpy.exp(numpy.broadcast_to(bias, (100, 100)))
    numpy.testing.assert_allclose(found, odds / odds.sum(1, keepdims=True), rtol=1e-5)
    numpy.testing.assert_array_equal(framework.values(pointer, N, theirs), full(2))


def waits():
    """The number of calls of this process that waited on the host, if they are counted."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "interposed_waits"):
        pytest.skip("the waits are not counted: load interposed.c with LD_PRELOAD")
    process.interposed_waits.restype = ctypes.c_ulong
    return process.interposed_waits()


def test_ten_thousand_random_hand_overs_never_wait_on_the_host(framework):
    before = waits()
    framework("cuStreamSynchronize", framework.stream())
    assert waits() == before + 1, "waits are counted"
    generator = random.Random(3)
    streams = [framework.stream() for _ in range(3)]
    hand_overs, step = 0, 0
    while hand_overs < 10_000:
        before = waits()
        results = []
        for _ in range(50):
            step += 1
            theirs, other = generator.sample(streams, 2)
            kind = generator.choice([Array, Described])
            a = kind(framework, theirs, step)
            total = millstream_example.add(a, a)
            hand_overs += 2
            if generator.random() < 0.5:
                total = millstream_example.add(total.on(Stream(other)), kind(framework, other, 1))
                results.append((total, 2 * step + 1))
                hand_overs += 3
            else:
                results.append((total, 2 * step))
        assert waits() == before, "a hand-over waited on the host"
        for total, value in results[::10]:
            stream = generator.choice(streams)
            numpy.testing.assert_array_equal(framework.consume(total, stream), full(value))


AT_EXIT = """
import sys
import time
import millstream_example
from framework import Array, Framework

framework = Framework()
theirs = framework.stream()
a = Array(framework, theirs, 1)
delete = a.delete
def deleted():
    print("deleted", flush=True)
    delete()
a.delete = deleted
if sys.argv[1] == "pending":
    framework.gate(theirs, 2)
    millstream_example.add(a, a.again(1))
else:
    framework.consume(millstream_example.add(a, a.again(1)), theirs)
    time.sleep(1)
"""


@pytest.mark.parametrize("state, printed", [("pending", ""), ("complete", "deleted\n")])
def test_what_is_pending_when_the_interpreter_ends_is_abandoned(tmp_path, state, printed):
    script = tmp_path / "at_exit.py"
    script.write_text(AT_EXIT)
    paths = sys.path + [str(pathlib.Path(__file__).parent)]
    ended = subprocess.run(
        [sys.executable, script, state],
        env=dict(os.environ, PYTHONPATH=":".join(paths)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, printed, "")
