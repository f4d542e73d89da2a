"""Training of the multi-layer perceptron: one hidden layer, SiLU, one output per action."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from steersman.errors import DeviceUnavailableError, FitError
from steersman.policies.action_value import Layers
from steersman.training.losses import LOSSES

__all__ = [
    "CHUNK_ROWS",
    "EpochCallback",
    "MlpNetwork",
    "TrainedLayers",
    "TrainingArrays",
    "find_device",
    "fresh_layers",
    "train_mlp",
]

CHUNK_ROWS = (
    8192  # gradients are summed over chunks of so many rows, whose activations stay in the processor's cache
)

EpochCallback = Callable[[int, float, "MlpNetwork"], None]
"""Called before each step with the number of steps taken, the loss there, and the network as it is then."""


class MlpNetwork(nn.Module):
    """Two linear layers around SiLU, over features that are normalised already: [n, D] -> [n, A]."""

    def __init__(self, layers: Layers) -> None:
        """Take the weights, which are copied."""
        super().__init__()
        self.hidden_weight = nn.Parameter(torch.tensor(layers.hidden_weight))  # [H, D]
        self.hidden_bias = nn.Parameter(torch.tensor(layers.hidden_bias))  # [H]
        self.output_weight = nn.Parameter(torch.tensor(layers.output_weight))  # [A, H]
        self.output_bias = nn.Parameter(torch.tensor(layers.output_bias))  # [A]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return one value per action: [n, A]."""
        hidden = nn.functional.silu(nn.functional.linear(inputs, self.hidden_weight, self.hidden_bias))
        return nn.functional.linear(hidden, self.output_weight, self.output_bias)

    def layers(self) -> Layers:
        """Return the weights as NumPy arrays of their own."""
        return Layers(*(parameter.detach().cpu().numpy().copy() for parameter in self.parameters()))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingArrays:
    """What a network is trained on; N rows, D inputs, A actions."""

    inputs: NDArray[np.float32]  # [N, D], normalised
    targets: NDArray[np.float32]  # [N, A], normalised gains, 0 where infeasible
    feasible: NDArray[np.bool_]  # [N, A]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedLayers:
    """The weights after the last step, and the losses on the way."""

    layers: Layers
    losses: tuple[float, ...]  # [epochs], each before its step


def find_device(name: str) -> torch.device:
    """Return the device called `name`, `cpu` or `cuda` or `cuda:N`; raise DeviceUnavailableError."""
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", name):
        raise DeviceUnavailableError(f"device: expected cpu, cuda or cuda:N, got {name!r}")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DeviceUnavailableError(f"device: {name!r} is not available here", hint="use --device cpu")
    if device.type == "cuda" and ":" in name and device.index >= torch.cuda.device_count():
        raise DeviceUnavailableError(
            f"device: expected one of {torch.cuda.device_count()} devices, got {name!r}"
        )
    return device


def fresh_layers(inputs: int, hidden: int, actions: int, *, seed: int) -> Layers:
    """Return PyTorch's default initialisation of two linear layers, drawn hidden first, then output.

    `nn.Linear` draws weights and biases uniformly from +-1/sqrt(inputs of the layer). The draws are those of the
    global generator after `torch.manual_seed(seed)`, from a generator of our own.
    """
    generator = torch.Generator(device="cpu").manual_seed(seed)
    drawn: list[NDArray[np.float32]] = []
    for rows, columns in ((hidden, inputs), (actions, hidden)):
        weight = nn.init.kaiming_uniform_(torch.empty(rows, columns), a=math.sqrt(5), generator=generator)
        bound = 1.0 / math.sqrt(columns)
        bias = nn.init.uniform_(torch.empty(rows), -bound, bound, generator=generator)
        drawn += [weight.numpy(), bias.numpy()]
    return Layers(*drawn)


def train_mlp(
    data: TrainingArrays,
    start: Layers,
    *,
    epochs: int,
    learning_rate: float,
    weight_decay: float,
    loss: str,
    device: str,
    on_epoch: EpochCallback | None = None,
) -> TrainedLayers:
    """Return `start` after `epochs` full-batch steps of Adam (Kingma and Ba 2015; decay as an L2 gradient).

    On the processor it runs in one thread: so the same seed gives the same numbers however many cores there are,
    and a busy machine does not stall it. Raises FitError when the loss is not finite, DeviceUnavailableError.
    """
    place = find_device(device)
    with _one_thread():
        return _descend(
            data,
            start,
            place,
            epochs=epochs,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            loss=loss,
            on_epoch=on_epoch,
        )


def _descend(
    data: TrainingArrays,
    start: Layers,
    place: torch.device,
    *,
    epochs: int,
    learning_rate: float,
    weight_decay: float,
    loss: str,
    on_epoch: EpochCallback | None,
) -> TrainedLayers:
    network = MlpNetwork(start).to(place)
    optimiser = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
    chunks = list(_chunks(data, place))
    kind = LOSSES[loss]
    total = float(sum(float(kind.total(targets, weights)) for _, targets, weights in chunks))
    losses: list[float] = []
    for epoch in range(epochs):
        optimiser.zero_grad()
        summed = torch.zeros((), dtype=torch.float64, device=place)
        for inputs, targets, weights in chunks:
            part = kind.over_rows(network(inputs), targets, weights) / total
            part.backward()  # type: ignore[no-untyped-call]
            summed += part.detach()
        losses.append(float(summed))
        if not math.isfinite(losses[-1]):
            raise FitError(
                f"the training loss became {losses[-1]} in epoch {epoch + 1} of {epochs}",
                hint="use a smaller learning rate",
            )
        if on_epoch is not None:
            on_epoch(epoch, losses[-1], network)
        optimiser.step()
    layers = network.layers()
    if not all(bool(np.isfinite(array).all()) for array in layers.arrays()):
        raise FitError(f"weights became infinite in epoch {epochs}", hint="use a smaller learning rate")
    return TrainedLayers(layers, tuple(losses))


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _chunks(data: TrainingArrays, place: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for first in range(0, len(data.inputs), CHUNK_ROWS):
        part = slice(first, first + CHUNK_ROWS)
        yield (
            torch.from_numpy(data.inputs[part]).to(place),
            torch.from_numpy(data.targets[part]).to(place),
            torch.from_numpy(data.feasible[part].astype(np.float32)).to(place),
        )
