"""The example package with PyTorch on a GPU, in one process."""

import random

import pytest

import millstream_example

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch has no GPU", allow_module_level=True)

N = 10_000


def add(a, b):
    return torch.from_dlpack(millstream_example.add(a, b))


@pytest.fixture(params=range(2))
def busy_stream(request):
    """A stream whose work takes a while, so that a missing order shows."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        yield stream


def test_the_kernel_waits_for_the_current_stream_and_it_for_the_kernel(busy_stream):
    a = torch.full((N,), 1.0, device="cuda")
    a.fill_(2.0)
    found = add(a, a)
    # Enqueued by PyTorch behind the kernel.
    found.mul_(10.0)
    a.fill_(7.0)
    assert torch.equal(found, torch.full((N,), 40.0, device="cuda"))


def test_memory_is_not_reused_while_the_kernel_reads_it(busy_stream):
    for step in range(100):
        a = torch.full((N,), float(step), device="cuda")
        found = add(a, a)
        del a
        # PyTorch's allocator may take the same block on the same stream.
        other = torch.full((N,), -1.0, device="cuda")
        assert torch.equal(found, torch.full((N,), 2.0 * step, device="cuda"))
        del other


def test_ten_thousand_random_hand_overs_are_right():
    generator = random.Random(5)
    streams = [torch.cuda.Stream() for _ in range(3)]
    values = [(torch.zeros(N, device="cuda"), 0.0, streams[0]) for _ in range(4)]
    torch.cuda.synchronize()
    hand_overs = 0
    while hand_overs < 10_000:
        stream = generator.choice(streams)
        with torch.cuda.stream(stream):
            (a, x, first), (b, y, second) = generator.choice(values), generator.choice(values)
            stream.wait_stream(first)
            stream.wait_stream(second)
            total, expected = add(a, b), x + y
            hand_overs += 3
            if expected > 1e6 or generator.random() < 0.2:
                expected = float(generator.randrange(1000))
                total.fill_(expected)
        # The streams that own the operands wait for their last use.
        first.wait_stream(stream)
        second.wait_stream(stream)
        values[generator.randrange(len(values))] = (total, expected, stream)
    torch.cuda.synchronize()
    for tensor, expected, _ in values:
        assert torch.equal(tensor, torch.full((N,), expected, device="cuda"))


def test_the_default_stream_is_refused_with_advice():
    a = torch.ones(N, device="cuda")
    with pytest.raises(BufferError, match="stream of its own"):
        add(a, a)
