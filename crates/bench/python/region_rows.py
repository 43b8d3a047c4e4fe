"""Does the works of the rows R1 to R35 with another library, when it is told to.

The argument is the library: torch, torch.compile, max-autotune (torch.compile with that mode, which
replays graphs of CUDA; for R10 alone), jax or cupy. Requests are lines of the standard
input, answers lines of the output that start with `answer`:

    prepare R1   prepares a work; the answer is `ok`, or `cannot` with the reason
    times N      the times of N calls in nanoseconds, each until the device is idle
    row N        the time of one of N calls until the device is idle after all of them
"""

import os
import sys
import time

WHO = sys.argv[1]
IS_TORCH = WHO.startswith("torch") or WHO == "max-autotune"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def answer(text):
    print("answer", text, flush=True)


def absent(why):
    print(why, flush=True)
    sys.exit(3)


try:
    import numpy as np

    if IS_TORCH:
        import torch

        if not torch.cuda.is_available():
            absent("PyTorch has no GPU")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        VERSION = torch.__version__
    elif WHO == "jax":
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_default_matmul_precision", "highest")
        if jax.default_backend() != "gpu":
            absent("JAX has no GPU")
        VERSION = jax.__version__
    else:
        import cupy

        VERSION = cupy.__version__
except ImportError as error:
    absent(str(error))

random = np.random.default_rng(1)


def numbers(*shape):
    return random.random(shape, dtype=np.float32) * 2 - 1


def halves(*shape):
    return numbers(*shape).astype(np.float16)


def layer():
    """The input, weights and bias of R17."""
    return halves(4096, 2048), halves(2048, 4096), halves(4096), halves(4096, 2048)


def classes():
    target = np.zeros((512, 10), dtype=np.float32)
    target[np.arange(512), np.arange(512) % 10] = 1
    return target


def indices(length):
    at = np.arange(length, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return (at & np.uint64(length - 1)).astype(np.int64)


def parameters():
    zeros = [np.zeros(512, dtype=np.float32), np.zeros(10, dtype=np.float32)]
    return numbers(784, 512) * 0.05, zeros[0], numbers(512, 10) * 0.05, zeros[1]


# The functions and arguments of each row, for one library each.


def training_step(relu, softmax, where):
    """The training step of R10, with the functions of a library."""

    def training(x, target, w1, b1, w2, b2):
        before = x @ w1 + b1
        active = relu(before)
        error = (softmax(active @ w2 + b2, 1) - target) * (1 / 512)
        back = where(before > 0, error @ w2.T, 0.0)
        return (
            w1 - x.T @ back * 0.01,
            b1 - back.sum(0) * 0.01,
            w2 - active.T @ error * 0.01,
            b2 - error.sum(0) * 0.01,
        )

    return training


def of_torch():
    import torch.nn.functional as functional

    def there(array):
        return torch.from_numpy(np.ascontiguousarray(array)).cuda()

    def elementwise(x):
        y = torch.relu((x * 1.5 + 0.25).abs() * 0.5 - 0.125)
        return -torch.clamp((y + x) * x, max=100.0) + 1.0

    def normalise(x):
        deviation = x - x.mean(1, keepdim=True)
        variance = (deviation * deviation).mean(1, keepdim=True)
        return deviation / torch.sqrt(variance + 1e-5)

    def softmax(x):
        powers = torch.exp(x - x.amax(1, keepdim=True))
        return powers / powers.sum(1, keepdim=True)

    def jacobi_step(x):
        inner = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.25
        y = x.clone()
        y[1:-1, 1:-1] = inner
        return y

    def attention(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v)

    def composed_attention(q, k, v):
        scores = torch.matmul(q, k.transpose(1, 2)) * 0.125
        return torch.matmul(torch.softmax(scores, 2), v)

    def means(x, centre):
        nearest = ((centre * centre).sum(1) - x @ centre.T * 2).argmin(1)
        sums = torch.zeros_like(centre).index_add_(0, nearest, x)
        ones = torch.ones(x.shape[0], device="cuda")
        counts = torch.zeros(centre.shape[0], device="cuda").index_add_(0, nearest, ones)
        return sums / counts.clamp(min=1.0)[:, None]

    def few(a, x, b):
        return a * x + b

    def twenty(x):
        y = x
        for _ in range(10):
            y = y * 0.5 + x
        return y

    wrap = {
        "torch": lambda function: function,
        "torch.compile": torch.compile,
        "max-autotune": lambda function: torch.compile(function, mode="max-autotune"),
    }[WHO]
    step, call = wrap(jacobi_step), wrap(few)

    def jacobi(x):
        for _ in range(100):
            x = step(x)
        return x

    def dependent(a, x, b):
        for _ in range(2000):
            x = call(a, x, b)
        return x

    def square(side):
        return there(numbers(side, side))

    # With the functions that are built in, the faster one counts.
    built_in = {
        "R2": lambda x: torch.softmax(x, 1),
        "R3": lambda x: functional.layer_norm(x, (8192,)),
        "R9": attention,
    }
    composed = {"R2": softmax, "R3": normalise, "R9": composed_attention}
    rows = {
        "R1": lambda: (wrap(elementwise), [there(numbers(1 << 26))]),
        "R4": lambda: (jacobi, [square(8192)]),
        "R5": lambda: (wrap(lambda x, y: x.T + y), [square(8192), square(8192)]),
        "R6": lambda: (wrap(lambda x: x.argmax(1)), [square(8192)]),
        "R7": lambda: (wrap(lambda x: x.sum()), [there(numbers(1 << 28))]),
        "R8": lambda: (wrap(lambda x, y: x @ y), [square(4096), square(4096)]),
        "R10": lambda: (
            wrap(training_step(torch.relu, torch.softmax, torch.where)),
            [there(numbers(512, 784)), there(classes()), *map(there, parameters())],
        ),
        "R11": lambda: (wrap(means), [there(numbers(1_000_000, 16)), there(numbers(64, 16))]),
        "R12": lambda: (call, [there(numbers(1000)) for _ in range(3)]),
        "R13": lambda: (wrap(twenty), [there(numbers(1000))]),
        "R14": lambda: (dependent, [there(numbers(1000)) for _ in range(3)]),
        "R15": lambda: (wrap(lambda x: x.cumsum(0)), [there(numbers(1 << 26))]),
        "R16": lambda: (
            wrap(lambda x, index: torch.gather(x, 0, index)),
            [there(numbers(1 << 26)), there(indices(1 << 26))],
        ),
        "R17": lambda: (
            wrap(lambda x, w, b, v: functional.gelu(torch.addmm(b, x, w)) @ v),
            [there(array) for array in layer()],
        ),
        "R18": lambda: (
            wrap(lambda q, k: torch.matmul(q, k.transpose(1, 2)) * 0.125),
            [there(halves(64, 1024, 64)) for _ in range(2)],
        ),
    }
    which = composed if WHO == "torch.compile" else built_in
    rows["R2"] = lambda: (wrap(which["R2"]), [square(8192)])
    rows["R3"] = lambda: (wrap(which["R3"]), [square(8192)])
    rows["R9"] = lambda: (which["R9"], [there(numbers(16, 1024, 64)) for _ in range(3)])
    if WHO == "torch.compile":
        rows["R9"] = lambda: (
            wrap(composed_attention),
            [there(numbers(16, 1024, 64)) for _ in range(3)],
        )
    def set_inner(x, inner):
        x[1:-1, 1:-1, 1:-1] = inner
        return x

    def cast(x, to):
        return x.to(to)

    rows |= patterns(torch, there, wrap, wrap, cast, torch.erf, torch.relu, set_inner)
    if WHO == "max-autotune":
        rows = {"R10": rows["R10"]}
    return rows, lambda results: torch.cuda.synchronize()


def of_jax():
    def elementwise(x):
        y = jax.nn.relu(jnp.abs(x * 1.5 + 0.25) * 0.5 - 0.125)
        return -jnp.minimum((y + x) * x, 100.0) + 1.0

    def softmax(x):
        return jax.nn.softmax(x, axis=1)

    def normalise(x):
        deviation = x - x.mean(1, keepdims=True)
        variance = (deviation * deviation).mean(1, keepdims=True)
        return deviation / jnp.sqrt(variance + 1e-5)

    def jacobi(x):
        def step(_, x):
            inner = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.25
            return x.at[1:-1, 1:-1].set(inner)

        return jax.lax.fori_loop(0, 100, step, x)

    def attention(q, k, v):
        scores = jnp.matmul(q, k.transpose(0, 2, 1)) * 0.125
        return jnp.matmul(jax.nn.softmax(scores, axis=2), v)

    def means(x, centre):
        nearest = ((centre * centre).sum(1) - x @ centre.T * 2).argmin(1)
        sums = jnp.zeros_like(centre).at[nearest].add(x)
        counts = jnp.zeros(centre.shape[0], jnp.float32).at[nearest].add(1.0)
        return sums / jnp.maximum(counts, 1.0)[:, None]

    def few(a, x, b):
        return a * x + b

    def twenty(x):
        y = x
        for _ in range(10):
            y = y * 0.5 + x
        return y

    call, there, wrap = jax.jit(few), jnp.asarray, jax.jit

    def dependent(a, x, b):
        for _ in range(2000):
            x = call(a, x, b)
        return x

    def square(side):
        return there(numbers(side, side))

    rows = {
        "R1": lambda: (wrap(elementwise), [there(numbers(1 << 26))]),
        "R2": lambda: (wrap(softmax), [square(8192)]),
        "R3": lambda: (wrap(normalise), [square(8192)]),
        "R4": lambda: (wrap(jacobi), [square(8192)]),
        "R5": lambda: (wrap(lambda x, y: x.T + y), [square(8192), square(8192)]),
        "R6": lambda: (wrap(lambda x: x.argmax(1)), [square(8192)]),
        "R7": lambda: (wrap(lambda x: x.sum()), [there(numbers(1 << 28))]),
        "R8": lambda: (wrap(lambda x, y: x @ y), [square(4096), square(4096)]),
        "R9": lambda: (wrap(attention), [there(numbers(16, 1024, 64)) for _ in range(3)]),
        "R10": lambda: (
            wrap(training_step(jax.nn.relu, jax.nn.softmax, jnp.where)),
            [there(numbers(512, 784)), there(classes()), *map(there, parameters())],
        ),
        "R11": lambda: (wrap(means), [there(numbers(1_000_000, 16)), there(numbers(64, 16))]),
        "R12": lambda: (call, [there(numbers(1000)) for _ in range(3)]),
        "R13": lambda: (wrap(twenty), [there(numbers(1000))]),
        "R14": lambda: (dependent, [there(numbers(1000)) for _ in range(3)]),
        "R15": lambda: (wrap(lambda x: x.cumsum(0)), [there(numbers(1 << 26))]),
        "R16": lambda: (
            wrap(lambda x, index: x[index]),
            [there(numbers(1 << 26)), there(indices(1 << 26).astype(np.int32))],
        ),
        "R17": lambda: (
            wrap(lambda x, w, b, v: jax.nn.gelu(x @ w + b, approximate=False) @ v),
            [there(array) for array in layer()],
        ),
        "R18": lambda: (
            wrap(lambda q, k: jnp.matmul(q, k.transpose(0, 2, 1)) * 0.125),
            [there(halves(64, 1024, 64)) for _ in range(2)],
        ),
    }

    def set_inner(x, inner):
        return x.at[1:-1, 1:-1, 1:-1].set(inner)

    def cast(x, to):
        return x.astype(to)

    erf = jax.scipy.special.erf
    rows |= patterns(jnp, there, wrap, wrap, cast, erf, jax.nn.relu, set_inner)
    return rows, jax.block_until_ready


def of_cupy():
    there = cupy.asarray

    @cupy.fuse()
    def elementwise(x):
        y = cupy.maximum(cupy.abs(x * np.float32(1.5) + np.float32(0.25)) * np.float32(0.5)
                         - np.float32(0.125), np.float32(0))
        return -cupy.minimum((y + x) * x, np.float32(100)) + np.float32(1)

    def softmax(x):
        powers = cupy.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def normalise(x):
        deviation = x - x.mean(axis=1, keepdims=True)
        variance = (deviation * deviation).mean(axis=1, keepdims=True)
        return deviation / cupy.sqrt(variance + np.float32(1e-5))

    def jacobi(x):
        for _ in range(100):
            y = x.copy()
            y[1:-1, 1:-1] = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * np.float32(
                0.25
            )
            x = y
        return x

    def attention(q, k, v):
        scores = cupy.matmul(q, k.transpose(0, 2, 1)) * np.float32(0.125)
        powers = cupy.exp(scores - scores.max(axis=2, keepdims=True))
        return cupy.matmul(powers / powers.sum(axis=2, keepdims=True), v)

    def square(side):
        return there(numbers(side, side))

    rows = {
        "R1": lambda: (elementwise, [there(numbers(1 << 26))]),
        "R2": lambda: (softmax, [square(8192)]),
        "R3": lambda: (normalise, [square(8192)]),
        "R4": lambda: (jacobi, [square(8192)]),
        "R5": lambda: (lambda x, y: x.T + y, [square(8192), square(8192)]),
        "R6": lambda: (lambda x: x.argmax(axis=1), [square(8192)]),
        "R7": lambda: (lambda x: x.sum(), [there(numbers(1 << 28))]),
        "R8": lambda: (lambda x, y: x @ y, [square(4096), square(4096)]),
        "R9": lambda: (attention, [there(numbers(16, 1024, 64)) for _ in range(3)]),
        "R15": lambda: (lambda x: cupy.cumsum(x), [there(numbers(1 << 26))]),
        "R16": lambda: (
            lambda x, index: cupy.take(x, index),
            [there(numbers(1 << 26)), there(indices(1 << 26))],
        ),
    }

    def set_inner(x, inner):
        x[1:-1, 1:-1, 1:-1] = inner
        return x

    def cast(x, to):
        return x.astype(to)

    def relu(x):
        return cupy.maximum(x, 0)

    from cupyx.scipy.special import erf

    rows |= patterns(cupy, there, lambda f: f, cupy.fuse, cast, erf, relu, set_inner)
    return rows, lambda results: cupy.cuda.Device().synchronize()


# The rows of f64, which JAX has only on demand.
WIDE = "R27", "R29", "R30"
ROWS, complete = of_torch() if IS_TORCH else of_jax() if WHO == "jax" else of_cupy()
answer(VERSION)
function = arguments = None
for line in sys.stdin:
    request, argument = line.split()
    if request == "prepare":
        function = arguments = None
        # The memory of the last row, which the libraries keep.
        if IS_TORCH:
            torch.cuda.empty_cache()
        elif WHO == "cupy":
            cupy.get_default_memory_pool().free_all_blocks()
        if argument not in ROWS:
            answer("cannot not written for this library")
            continue
        if WHO == "jax":
            jax.config.update("jax_enable_x64", argument in WIDE)
        try:
            function, arguments = ROWS[argument]()
            for _ in range(3):
                complete(function(*arguments))
        except Exception as error:  # The other rows can still be measured.
            function = None
            answer("cannot " + " ".join(str(error).split())[:200])
            continue
        answer("ok")
        continue
    count, took = int(argument), []
    results = None
    try:
        if request == "times":
            for _ in range(count):
                start = time.perf_counter_ns()
                complete(function(*arguments))
                took.append(time.perf_counter_ns() - start)
            answer(" ".join(map(str, took)))
        else:
            start = time.perf_counter_ns()
            results = [function(*arguments) for _ in range(count)]
            complete(results)
            answer((time.perf_counter_ns() - start) / count)
    except Exception as error:  # The row stays empty.
        answer("failed: " + " ".join(str(error).split())[:200])
    del results
