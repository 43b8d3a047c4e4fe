"""The example package with PyTorch in one process: on a GPU, else with its arrays of the host and a
simulated device.
"""

import random

import pytest

torch = pytest.importorskip("torch")

from millstream_example import add as package_add
from millstream_example import pytorch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N = 10_000

on_a_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="PyTorch has no GPU")


def add(a, b):
    return torch.from_dlpack(package_add(a, b))


def parameters():
    generator = torch.Generator().manual_seed(4)
    shapes = [(40, 7), (7, 5), (5,)]
    made = [torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes]
    return [tensor.requires_grad_() for tensor in made]


def reference(x, weights, bias):
    return torch.softmax(x @ weights + bias, 1)


def test_the_operation_computes_the_softmax():
    found = pytorch.probabilities(*parameters())
    assert found.device.type == DEVICE
    torch.testing.assert_close(found, reference(*parameters()))
    by_name = torch.ops.millstream_example.probabilities(*parameters())
    torch.testing.assert_close(by_name, found)


def test_its_gradients_are_those_of_pytorch():
    ours, theirs = parameters(), parameters()
    factors = torch.linspace(-1, 1, 200, device=DEVICE).reshape(40, 5)
    (pytorch.probabilities(*ours) * factors).sum().backward()
    (reference(*theirs) * factors).sum().backward()
    for our, their in zip(ours, theirs):
        torch.testing.assert_close(our.grad, their.grad)


def test_the_operation_is_registered_as_pytorch_demands():
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(pytorch.probabilities, parameters(), test_utils=checks)
    with torch.no_grad():
        gradient = [reference(*parameters()), torch.ones(40, 5, device=DEVICE)]
    torch.library.opcheck(pytorch.odds_gradient, gradient, test_utils=checks)


def test_the_fake_operation_has_the_shape_and_runs_nothing():
    with torch.device("meta"):
        arguments = [torch.empty(40, 7), torch.empty(7, 5), torch.empty(5)]
    found = pytorch.probabilities(*arguments)
    assert (found.shape, found.device.type) == ((40, 5), "meta")


def test_views_are_copied_where_they_must_be():
    x, weights, bias = parameters()
    with torch.no_grad():
        found = pytorch.probabilities(x[::2], weights.T.contiguous().T, bias)
        torch.testing.assert_close(found, reference(x[::2], weights, bias))


@pytest.fixture(params=range(2))
def busy_stream(request):
    """A stream whose work takes a while, so that a missing order shows."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        yield stream


@on_a_gpu
def test_the_kernel_waits_for_the_current_stream_and_it_for_the_kernel(busy_stream):
    a = torch.full((N,), 1.0, device="cuda")
    a.fill_(2.0)
    found = add(a, a)
    # Enqueued by PyTorch behind the kernel.
    found.mul_(10.0)
    a.fill_(7.0)
    assert torch.equal(found, torch.full((N,), 40.0, device="cuda"))


@on_a_gpu
def test_memory_is_not_reused_while_the_kernel_reads_it(busy_stream):
    for step in range(100):
        a = torch.full((N,), float(step), device="cuda")
        found = add(a, a)
        del a
        # PyTorch's allocator may take the same block on the same stream.
        other = torch.full((N,), -1.0, device="cuda")
        assert torch.equal(found, torch.full((N,), 2.0 * step, device="cuda"))
        del other


@on_a_gpu
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


class OnStream:
    """A tensor that names no stream, and a stream, by their protocols alone."""

    def __init__(self, tensor, stream):
        described = tensor.__cuda_array_interface__
        self.__cuda_array_interface__ = described | {"version": 3, "stream": None}
        self.tensor, self.stream = tensor, stream

    def __cuda_stream__(self):
        return (0, self.stream.cuda_stream)


@on_a_gpu
def test_nothing_of_ours_becomes_part_of_a_graph_of_pytorch():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        a = torch.full((N,), 3.0, device="cuda")
    stream.synchronize()
    named = OnStream(a, stream)
    package_add(named, named, stream=named)
    for call in [lambda: add(a, a), lambda: package_add(named, named, stream=named)]:
        refused = []
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
                with pytest.raises(Exception, match="captur"):
                    call()
                refused.append(True)
        except RuntimeError:
            # PyTorch has made a stream wait for the captured one, which was not joined.
            pass
        assert refused
    with torch.cuda.stream(stream):
        found = add(a, a)
        assert torch.equal(found, torch.full((N,), 6.0, device="cuda"))


@on_a_gpu
def test_the_default_stream_is_refused_with_advice():
    a = torch.ones(N, device="cuda")
    with pytest.raises(BufferError, match="stream of its own"):
        add(a, a)


@on_a_gpu
def test_the_operation_works_beside_the_default_stream():
    torch.cuda._sleep(20_000_000)
    x, weights, bias = parameters()
    for _ in range(50):
        found = pytorch.probabilities(x, weights, bias)
        doubled = found * 2.0
        del found
        torch.testing.assert_close(doubled, reference(x, weights, bias) * 2.0)
