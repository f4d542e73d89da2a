"""Every expected value here was worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steersman.training.normalise import TargetScaling
from steersman.training.targets import (
    log_shortfalls,
    normalise_targets,
    row_ranks,
    shaped_gains,
    shapes_of,
)
from tests.support.teaching import draw_examples

GAINS = np.array([[5.0, -1.0, 2.0], [1.0, 1.0, 0.0], [7.0, 3.0, -100.0], [0.0, 0.0, 4.0]])
FEASIBLE = np.array([[True] * 3, [True] * 3, [True, True, False], [False, False, True]])


def test_ranks_within_a_row_run_from_least_to_most_and_share_ties() -> None:
    expected = [[1.0, -1.0, 0.0], [0.5, 0.5, -1.0], [1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(row_ranks(GAINS, FEASIBLE), expected)


def test_log_shortfalls_are_measured_in_medians() -> None:
    """Shortfalls above 0 are 6, 3, 1 and 4, with a median of 3.5."""
    expected = [
        [0.0, -np.log1p(6 / 3.5), -np.log1p(3 / 3.5)],
        [0.0, 0.0, -np.log1p(1 / 3.5)],
        [0.0, -np.log1p(4 / 3.5), 0.0],
        [0.0, 0.0, 0.0],
    ]
    np.testing.assert_allclose(log_shortfalls(GAINS, FEASIBLE), expected)
    np.testing.assert_array_equal(
        log_shortfalls(np.zeros((2, 2)), np.ones((2, 2), dtype=bool)), np.zeros((2, 2))
    )


@pytest.mark.parametrize("shape", ["gain", "log", "rank"])
def test_every_shape_keeps_the_best_action_of_a_row_best(shape: str) -> None:
    examples = draw_examples(actions=5, masked=0.3)
    shaped = np.where(examples.feasible, shaped_gains(examples, shape), -np.inf)
    best = np.where(examples.feasible, examples.gains, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(shaped.argmax(axis=1), best)


def test_targets_are_normalised_where_feasible() -> None:
    found = normalise_targets(GAINS, FEASIBLE, TargetScaling(1.0, 2.0))
    np.testing.assert_allclose(found[2], [3.0, 1.0, 0.0])


def test_the_shapes_of_each_loss() -> None:
    assert {loss: shapes_of(loss) for loss in ("squared", "log", "rank", "mixed", "pairwise")} == {
        "squared": ("gain",),
        "log": ("log",),
        "rank": ("rank",),
        "mixed": ("gain", "log", "rank"),
        "pairwise": ("gain",),
    }


def test_an_infeasible_entry_has_no_say() -> None:
    examples = draw_examples(masked=0.4)
    wild = replace(examples, gains=np.where(examples.feasible, examples.gains, 1e9))
    for shape in ("log", "rank"):
        for some in (examples, wild):
            shaped = shaped_gains(some, shape)
            assert (shaped[~some.feasible] == 0.0).all()
        np.testing.assert_array_equal(shaped_gains(examples, shape), shaped_gains(wild, shape))
