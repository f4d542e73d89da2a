"""Training losses, as sums over rows, so that a batch may be summed part by part.

Shapes: n rows, A actions. `values` are the outputs of the network, `targets` the normalised targets, `weights` the
feasible mask as 0 and 1. Each loss divides by a total that is known before training, so that its value is a mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

__all__ = ["LOSSES", "Loss", "pairwise_loss", "pairwise_total", "squared_loss", "squared_total"]


def squared_loss(values: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of the squared errors of the feasible entries: a scalar."""
    return (torch.square(values - targets) * weights).sum()


def squared_total(targets: Tensor, weights: Tensor) -> Tensor:
    """Return the number of feasible entries."""
    return weights.expand_as(targets).sum(dtype=torch.float64)


def pairwise_loss(values: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the cost-weighted logistic loss of ranking each feasible pair of actions: a scalar.

    For a pair whose first is better by c: c * ln(1 + exp(-(v_first - v_second))): RankNet's loss (Burges et al.
    2005, equation 3), each pair weighted by what its confusion would cost, as cost-sensitive classification does
    (Beygelzimer, Langford, Zadrozny 2008). The values rank actions; they do not estimate gains.
    """
    gaps = targets.unsqueeze(2) - targets.unsqueeze(1)  # [n, A, A]
    pairs = weights.unsqueeze(2) * weights.unsqueeze(1)
    ahead = values.unsqueeze(2) - values.unsqueeze(1)
    return (gaps.clamp(min=0.0) * pairs * softplus(-ahead)).sum()


def pairwise_total(targets: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of the gaps of all feasible pairs, float64; at least a hair, so that ties divide safely."""
    gaps = (targets.unsqueeze(2) - targets.unsqueeze(1)).clamp(min=0.0)
    pairs = weights.unsqueeze(2) * weights.unsqueeze(1)
    return (gaps * pairs).sum(dtype=torch.float64).clamp(min=1e-12)


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss over rows and the total that makes a mean of it."""

    over_rows: Callable[[Tensor, Tensor, Tensor], Tensor]
    total: Callable[[Tensor, Tensor], Tensor]


LOSSES = {
    "squared": Loss(squared_loss, squared_total),
    "pairwise": Loss(pairwise_loss, pairwise_total),
}
