"""Every expected value here was worked out by hand."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from steersman.training.losses import LOSSES  # noqa: E402

VALUES = torch.tensor([[1.0, 0.0, 5.0], [0.5, 0.5, 0.5]])
TARGETS = torch.tensor([[2.0, -1.0, 0.0], [0.0, 1.0, 3.0]])
WEIGHTS = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def test_squared_error_over_feasible_entries() -> None:
    loss = LOSSES["squared"]
    # (1 - 2)^2 + (0 + 1)^2, and 0.5^2 + 0.5^2 + 2.5^2; five entries.
    assert float(loss.over_rows(VALUES, TARGETS, WEIGHTS)) == pytest.approx(2.0 + 6.75)
    assert float(loss.total(TARGETS, WEIGHTS)) == 5.0


def test_pairwise_loss_weighs_each_pair_by_its_gap() -> None:
    loss = LOSSES["pairwise"]
    # First row: one pair, gap 3, the better one ahead by 1. Second: gaps 1, 3, 2, nobody ahead.
    assert float(loss.over_rows(VALUES, TARGETS, WEIGHTS)) == pytest.approx(
        3.0 * softplus(-1.0) + 6.0 * math.log(2.0)
    )
    assert float(loss.total(TARGETS, WEIGHTS)) == pytest.approx(9.0)


def test_pairwise_total_of_ties_can_be_divided_by() -> None:
    assert float(LOSSES["pairwise"].total(torch.zeros(2, 3), WEIGHTS)) > 0.0
