"""The package's regions as operations of PyTorch: `torch.ops.millstream_example.probabilities`."""

import torch
from torch import Tensor

import millstream_example as package


def call(function, *tensors: Tensor) -> Tensor:
    """Calls a function of the package in the order of PyTorch's current stream."""
    tensors = [tensor.detach().contiguous() for tensor in tensors]
    device = tensors[0].device
    if device.type != "cuda":
        return torch.from_dlpack(function(*tensors))
    current = torch.cuda.current_stream(device)
    if current.cuda_stream > 2:
        return torch.from_dlpack(function(*tensors))
    # CUDA's default stream cannot be shared. A stream beside it waits for it, and it for that one.
    # The result's memory is reused in the order of that stream, so that its user gets a copy, which
    # PyTorch has allocated.
    beside = torch.cuda.Stream(device)
    beside.wait_stream(current)
    with torch.cuda.stream(beside):
        result = torch.from_dlpack(function(*tensors)).clone()
    current.wait_stream(beside)
    result.record_stream(current)
    return result


@torch.library.custom_op("millstream_example::odds_gradient", mutates_args=())
def odds_gradient(probabilities: Tensor, gradient: Tensor) -> Tensor:
    """The gradient by `x @ weights + bias`, from that by the probabilities."""
    return call(package.odds_gradient, probabilities, gradient)


@odds_gradient.register_fake
def _(probabilities, gradient):
    return torch.empty_like(probabilities, memory_format=torch.contiguous_format)


@torch.library.custom_op("millstream_example::probabilities", mutates_args=())
def probabilities(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """The softmax of `x @ weights + bias`."""
    return call(package.probabilities, x, weights, bias)


@probabilities.register_fake
def _(x, weights, bias):
    return x.new_empty(x.shape[0], weights.shape[1])


def _keep(ctx, inputs, output):
    x, weights, _ = inputs
    ctx.save_for_backward(x, weights, output)


def _backward(ctx, gradient):
    x, weights, found = ctx.saved_tensors
    odds = odds_gradient(found, gradient)
    return odds @ weights.mT, x.mT @ odds, odds.sum(0)


probabilities.register_autograd(_backward, setup_context=_keep)
