"""The example package with JAX in one process, eagerly: on a GPU, else with its arrays of the host
and a simulated device.
"""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy

import millstream_example

ON_A_GPU = jax.default_backend() == "gpu"


def test_arrays_go_to_a_kernel_and_back():
    x = jnp.arange(1000, dtype=jnp.float32)
    found = jnp.from_dlpack(millstream_example.add(x, x * 2))
    numpy.testing.assert_array_equal(found + 1, numpy.arange(1000) * 3 + 1)


def test_read_only_arrays_are_arguments_of_regions():
    x = jnp.linspace(-1, 1, 200, dtype=jnp.float32).reshape(40, 5)
    assert ON_A_GPU or not numpy.from_dlpack(x).flags.writeable
    weights, bias = jnp.eye(5, dtype=jnp.float32), jnp.zeros(5, jnp.float32)
    result = millstream_example.probabilities(x, weights, bias)
    found = jnp.from_dlpack(result)
    numpy.testing.assert_allclose(found, jax.nn.softmax(x, 1), rtol=1e-5)


def test_half_precision_is_refused():
    for kind in [jnp.bfloat16, jnp.float16]:
        x = jnp.ones(3, kind)
        with pytest.raises((ValueError, BufferError)):
            millstream_example.add(x, x)
