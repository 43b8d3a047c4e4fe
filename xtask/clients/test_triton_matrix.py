"""Products of matrices and attention by Triton's `dot`, on a simulated A100, without PyTorch."""

import numpy
import pytest
import triton
import triton.language as tl

from test_triton import Array


@triton.jit
def matmul(
    a, b, out, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OUT: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=OUT)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        at = k * BLOCK_K + inner
        x = tl.load(
            a + rows[:, None] * K + at[None, :],
            mask=(rows[:, None] < M) & (at[None, :] < K),
            other=0,
        )
        y = tl.load(
            b + at[:, None] * N + columns[None, :],
            mask=(at[:, None] < K) & (columns[None, :] < N),
            other=0,
        )
        total = tl.dot(x, y, total, out_dtype=OUT)
    at = out + rows[:, None] * N + columns[None, :]
    tl.store(at, total, mask=(rows[:, None] < M) & (columns[None, :] < N))


def product(a, b, out_type, result, stages, blocks=(64, 64, 32)):
    (m, k), n = a.shape, b.shape[1]
    out = Array(numpy.zeros((m, n), result))
    grid = (triton.cdiv(m, blocks[0]), triton.cdiv(n, blocks[1]))
    matmul[grid](
        Array(a), Array(b), out, m, n, k, *blocks, out_type, num_warps=4, num_stages=stages
    )
    return out.host()


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(128, 128, 128), (96, 80, 160), (130, 64, 48)])
def test_half_precision(shape, stages):
    m, n, k = shape
    random = numpy.random.default_rng(m + stages)
    a = random.standard_normal((m, k)).astype(numpy.float16)
    b = random.standard_normal((k, n)).astype(numpy.float16)
    expected = a.astype(numpy.float64) @ b.astype(numpy.float64)
    found = product(a, b, tl.float32, numpy.float32, stages)
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * k**0.5)


def test_tf32():
    random = numpy.random.default_rng(1)
    a = random.integers(-30, 30, (64, 96)).astype(numpy.float32)
    b = random.integers(-30, 30, (96, 64)).astype(numpy.float32)
    numpy.testing.assert_array_equal(product(a, b, tl.float32, numpy.float32, 3), a @ b)


def test_integers():
    random = numpy.random.default_rng(2)
    a = random.integers(-128, 128, (64, 64)).astype(numpy.int32).astype(numpy.int8)
    b = random.integers(-128, 128, (64, 64)).astype(numpy.int32).astype(numpy.int8)
    found = product(a, b, tl.int32, numpy.int32, 2, (64, 64, 64))
    numpy.testing.assert_array_equal(found, a.astype(numpy.int32) @ b.astype(numpy.int32))


@triton.jit
def attention(
    q, k, v, out, scale, LENGTH,
    CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    base = tl.program_id(1) * LENGTH * WIDTH
    width = tl.arange(0, WIDTH)
    query = tl.load(q + base + rows[:, None] * WIDTH + width[None, :])
    largest = tl.full((ROWS,), -float("inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * ROWS if CAUSAL else LENGTH, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        key = tl.load(k + base + columns[None, :] * WIDTH + width[:, None])
        score = tl.dot(query, key) * scale
        if CAUSAL:
            score = tl.where(rows[:, None] >= columns[None, :], score, -float("inf"))
        larger = tl.maximum(largest, tl.max(score, 1))
        power = tl.exp2(score - larger[:, None])
        shrink = tl.exp2(largest - larger)
        value = tl.load(v + base + columns[:, None] * WIDTH + width[None, :])
        total = tl.dot(power.to(tl.float16), value, total * shrink[:, None])
        weight = weight * shrink + tl.sum(power, 1)
        largest = larger
    total = total / weight[:, None]
    tl.store(out + base + rows[:, None] * WIDTH + width[None, :], total.to(tl.float16))


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention(causal):
    heads, length, width = 2, 128, 64
    random = numpy.random.default_rng(3)
    shape = (heads, length, width)
    q, k, v = (random.standard_normal(shape).astype(numpy.float16) for _ in range(3))
    out = Array(numpy.zeros(shape, numpy.float16))
    scale = 1.4426950408889634 / width**0.5
    attention[(length // 64, heads)](
        Array(q), Array(k), Array(v), out, scale, length, causal, 64, 32, width,
        num_warps=4, num_stages=3,
    )
    q, k, v = (it.astype(numpy.float64) for it in (q, k, v))
    score = q @ k.transpose(0, 2, 1) / width**0.5
    if causal:
        score = numpy.where(numpy.tri(length, dtype=bool), score, -numpy.inf)
    power = numpy.exp(score - score.max(axis=2, keepdims=True))
    expected = power / power.sum(axis=2, keepdims=True) @ v
    numpy.testing.assert_allclose(out.host(), expected, rtol=2e-2, atol=2e-3)
