"""The example package with NumPy, on a simulated device: its results are in the host's memory."""

import gc

import numpy
import pytest

import millstream_example

ONE = numpy.ones(1, numpy.float32)
if millstream_example.add(ONE, ONE).__dlpack_device__()[0] != 1:
    pytest.skip("this runs on a GPU", allow_module_level=True)


def sum_of(a, b):
    return numpy.from_dlpack(millstream_example.add(a, b))


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 1, 7), (0,), (100_000,)])
def test_the_sum_is_that_of_numpy(shape):
    generator = numpy.random.default_rng(1)
    a, b = (generator.standard_normal(shape).astype(numpy.float32) for _ in range(2))
    found = sum_of(a, b)
    assert found.shape == shape
    assert found.dtype == numpy.float32
    numpy.testing.assert_array_equal(found, a + b)


def test_a_result_is_an_argument():
    ones = numpy.ones(9, numpy.float32)
    two = millstream_example.add(ones, ones)
    assert two.shape == [9]
    numpy.testing.assert_array_equal(sum_of(two, ones), numpy.full(9, 3, numpy.float32))


def test_a_result_outlives_the_array_that_it_came_from():
    ones = numpy.ones(9, numpy.float32)
    result = millstream_example.add(ones, ones)
    values = numpy.from_dlpack(result)
    del result, ones
    gc.collect()
    numpy.testing.assert_array_equal(values, numpy.full(9, 2, numpy.float32))


def test_an_unused_capsule_is_freed():
    ones = numpy.ones(9, numpy.float32)
    capsule = millstream_example.add(ones, ones).__dlpack__()
    assert '"dltensor"' in repr(capsule)
    del capsule
    gc.collect()


def test_errors_name_the_difference():
    ones = numpy.ones((4, 4), numpy.float32)
    with pytest.raises(ValueError, match="shapes are"):
        millstream_example.add(ones, ones[:2])
    with pytest.raises(ValueError, match="elements are"):
        millstream_example.add(ones.astype(numpy.float64), ones)
    with pytest.raises(ValueError, match="not contiguous"):
        millstream_example.add(ones.T[:3], ones)
    with pytest.raises(TypeError, match="DLPack"):
        millstream_example.add([1.0], ones)


def test_read_only_arrays_of_the_host_are_copied():
    ones = numpy.ones(4, numpy.float32)
    ones.flags.writeable = False
    numpy.testing.assert_array_equal(sum_of(ones, ones), numpy.full(4, 2, numpy.float32))


def softmax(x, weights, bias):
    odds = numpy.exp((x @ weights + bias).astype(numpy.float64))
    return odds / odds.sum(1, keepdims=True)


def test_regions_compute_what_numpy_computes():
    generator = numpy.random.default_rng(2)
    x, weights, bias, gradient = (
        generator.standard_normal(shape).astype(numpy.float32)
        for shape in [(40, 7), (7, 5), (5,), (40, 5)]
    )
    result = millstream_example.probabilities(x, weights, bias)
    assert result.shape == [40, 5]
    found = numpy.from_dlpack(result)
    numpy.testing.assert_allclose(found, softmax(x, weights, bias), rtol=1e-5)
    odds = numpy.from_dlpack(millstream_example.odds_gradient(found, gradient))
    weighted = found * gradient
    expected = weighted - found * weighted.sum(1, keepdims=True)
    numpy.testing.assert_allclose(odds, expected, rtol=1e-4, atol=1e-6)


def test_errors_of_regions_name_the_difference():
    x = numpy.ones((4, 3), numpy.float32)
    with pytest.raises(ValueError, match="axes"):
        millstream_example.probabilities(x[0], x, x[0])
    with pytest.raises(ValueError, match=r"\[4, 3\]"):
        millstream_example.probabilities(x, x, x[0])
    with pytest.raises(ValueError, match="elements are"):
        millstream_example.odds_gradient(x, x.astype(numpy.float16))


def test_a_simulated_device_has_no_streams_of_frameworks():
    ones = numpy.ones(3, numpy.float32)
    stream = type("Stream", (), {"__cuda_stream__": lambda self: (0, 77)})()
    with pytest.raises(BufferError, match="simulated"):
        millstream_example.add(ones, ones, stream=stream)
    with pytest.raises(BufferError, match="simulated"):
        millstream_example.add(ones, ones).on(stream)
