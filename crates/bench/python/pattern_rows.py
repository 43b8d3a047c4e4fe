"""The works of the rows R19 to R35 for a library `xp`, which is torch, jax.numpy or cupy.

`region_rows.py`, which follows, calls `patterns` with what differs between the libraries: how a
function, or one of single elements, is wrapped, an array cast, and its inner elements replaced.
"""


def patterns(xp, there, wrap, fuse, cast, erf, relu, set_inner):
    bfloat16 = getattr(xp, "bfloat16", None)

    def nearest(x, p):
        return ((x[:, None, :] - p[None, :, :]) ** 2).sum(2).argmin(1)

    def blur(x):
        parts = [x[i : i + 8188, j : j + 8188] for i in range(5) for j in range(5)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total * (1 / 25)

    def prices(s, x, t):
        r, v = 0.02, 0.3
        root = xp.sqrt(t) * v
        d1 = (xp.log(s / x) + t * (r + v * v / 2)) / root
        d2 = d1 - root
        n1, n2 = (erf(d * 0.5**0.5) * 0.5 + 0.5 for d in (d1, d2))
        discounted = x * xp.exp(t * -r)
        return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)

    def layer_norm(x, weight, bias):
        wide = cast(x, xp.float32)
        deviation = wide - wide.mean(1)[:, None]
        variance = (deviation * deviation).mean(1)[:, None]
        return cast(deviation / xp.sqrt(variance + 1e-5) * weight + bias, bfloat16)

    def diffusion(x, coefficient):
        i, j, _ = coefficient.shape
        laplace = 4.0 * x[1 : i + 3, 1 : j + 3] - (
            x[2 : i + 4, 1 : j + 3]
            + x[: i + 2, 1 : j + 3]
            + x[1 : i + 3, 2 : j + 4]
            + x[1 : i + 3, : j + 2]
        )

        def limited(flux, gradient):
            return xp.where(flux * gradient > 0, 0.0, flux)

        along = limited(
            laplace[1:, 1 : j + 1] - laplace[:-1, 1 : j + 1],
            x[2 : i + 3, 2 : j + 2] - x[1 : i + 2, 2 : j + 2],
        )
        across = limited(
            laplace[1 : i + 1, 1:] - laplace[1 : i + 1, :-1],
            x[2 : i + 2, 2 : j + 3] - x[2 : i + 2, 1 : j + 2],
        )
        total = along[1:] - along[:-1] + across[:, 1:] - across[:, :-1]
        return x[2 : i + 2, 2 : j + 2] - coefficient * total

    def forces(position, mass):
        dx, dy, dz = (
            position[:, axis][None, :] - position[:, axis][:, None] for axis in range(3)
        )
        inverse = (dx**2 + dy**2 + dz**2 + 0.01) ** -1.5
        return xp.stack([(d * inverse) @ mass for d in (dx, dy, dz)], 1)

    def distances(t1, p1, t2, p2):
        square = (
            xp.sin((t2 - t1) / 2) ** 2 + xp.cos(t1) * xp.cos(t2) * xp.sin((p2 - p1) / 2) ** 2
        )
        return 2 * xp.arctan2(xp.sqrt(square), xp.sqrt(1 - square))

    def heat_step(a, b):
        def inner(x):
            middle = x[1:-1, 1:-1, 1:-1]
            return (
                0.125 * (x[2:, 1:-1, 1:-1] - 2.0 * middle + x[:-2, 1:-1, 1:-1])
                + 0.125 * (x[1:-1, 2:, 1:-1] - 2.0 * middle + x[1:-1, :-2, 1:-1])
                + 0.125 * (x[1:-1, 1:-1, 2:] - 2.0 * middle + x[1:-1, 1:-1, :-2])
                + middle
            )

        b = set_inner(b, inner(a))
        return set_inner(a, inner(b)), b

    step = wrap(heat_step)

    def heat(start):
        a, b = start + 0.0, start + 0.0
        for _ in range(99):
            a, b = step(a, b)
        return a

    def mixture(x, means, inverse, weights):
        precisions = inverse**2
        log = (
            (means**2 * precisions).sum(1)
            - 2 * x @ (means * precisions).T
            + x**2 @ precisions.T
        )
        log = -0.5 * (2 * 1.8378770664093453 + log) + xp.log(inverse).sum(1) + xp.log(weights)
        norm = xp.log(xp.exp(log).sum(1))
        return norm.mean(), log - norm[:, None]

    def sort(x):
        found = xp.sort(x)
        return found.values if hasattr(found, "values") else found

    def greatest(x):
        if WHO == "jax":
            return jax.lax.top_k(x, 64)
        if hasattr(xp, "topk"):
            return xp.topk(x, 64, 1)
        # CuPy has no such function, and no order of those that it finds.
        at = xp.argpartition(x, -64, 1)[:, -64:]
        return xp.take_along_axis(x, at, 1), at

    def between(low, high):
        return there((numbers(1 << 24) + 1) * np.float32((high - low) / 2) + np.float32(low))

    def wide(*shape):
        return there(numbers(*shape).astype(np.float64))

    def small():
        return there(np.array([[1, 0.5], [0.75, 1.25]], dtype=np.float32))

    def brief(*shape):
        return cast(there(numbers(*shape)), bfloat16)

    return {
        "R19": lambda: (wrap(nearest), [there(numbers(20000, 3)), there(numbers(2000, 3))]),
        "R20": lambda: (wrap(blur), [there(numbers(8192, 8192))]),
        "R21": lambda: (fuse(prices), [between(5, 30), between(1, 100), between(0.25, 10)]),
        "R22": lambda: (
            wrap(layer_norm),
            [brief(4096, 8192), there(numbers(8192)), there(numbers(8192))],
        ),
        "R23": lambda: (
            wrap(lambda w, x: cast(w, bfloat16) @ x),
            [there((numbers(8192, 8192) * 127).astype(np.int8)), brief(8192)],
        ),
        "R24": lambda: (
            wrap(lambda w, which, x: w[which] @ x),
            [brief(8, 4096, 4096), there(np.array([3, 5])), brief(4096)],
        ),
        "R25": lambda: (wrap(lambda x: (x + 1).argmax()), [there(numbers(64, 128, 256))]),
        "R26": lambda: (
            wrap(lambda a, b, bias: relu(a @ b + bias)),
            [there(halves(2048, 768)), there(halves(768, 3072)), there(halves(2048, 3072))],
        ),
        "R27": lambda: (wrap(diffusion), [wide(388, 388, 160), wide(384, 384, 160)]),
        "R28": lambda: (wrap(forces), [there(numbers(8192, 3)), there(numbers(8192))]),
        "R29": lambda: (fuse(distances), [wide(10_000_000) for _ in range(4)]),
        "R30": lambda: (heat, [wide(120, 120, 120)]),
        "R31": lambda: (
            wrap(mixture),
            [
                there(numbers(500_000, 2)),
                small(),
                small(),
                there(np.array([0.5, 0.5], dtype=np.float32)),
            ],
        ),
        "R32": lambda: (wrap(sort), [there(numbers(1 << 26))]),
        "R33": lambda: (wrap(lambda x: xp.argsort(x)), [there(numbers(1 << 26))]),
        "R34": lambda: (wrap(greatest), [there(numbers(4096, 32768))]),
        # The number of results follows from the elements, so that no library compiles it.
        "R35": lambda: (
            lambda x: xp.unique(x, return_counts=True),
            [there((numbers(1 << 24) * np.float32(1e6)).astype(np.int32))],
        ),
    }


