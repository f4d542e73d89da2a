from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidInputError, InvalidSpecError
from steersman.policies.fixed import FixedActionPolicy, SeededRandomPolicy, ThresholdPolicy

CATALOGUE = ActionCatalogue.of(["OFF", "FUSE", "ALL"])
SCHEMA = FeatureSchema("v1", ("coverage", "budget"))
BY_BUDGET = ThresholdPolicy(CATALOGUE, SCHEMA, "budget", (1.0, 5.0), ("OFF", "ALL", "FUSE"))


@pytest.mark.parametrize(
    ("feasible", "played"), [([0, 1, 2], 1), ([1, 2], 1), ([0, 2], 0), ([2], 2)], ids=str
)
def test_a_fixed_action_gives_way_to_the_first_feasible(feasible: list[int], played: int) -> None:
    policy = FixedActionPolicy(CATALOGUE, "FUSE")
    for u in (0.0, 0.999):
        choice = policy.choose(None, feasible, u)
        assert (choice.position, choice.propensity, choice.explored) == (played, 1.0, False)
    assert policy.probabilities(None, feasible) == [float(position == played) for position in feasible]
    assert policy.action_values(None, feasible) == policy.probabilities(None, feasible, explore=False)


@pytest.mark.parametrize(
    ("budget", "played"), [(0.999, 0), (1.0, 2), (4.999, 2), (5.0, 1), (1e9, 1), (-3.0, 0), (2, 2)]
)
def test_an_edge_belongs_to_the_action_above_it(budget: float, played: int) -> None:
    for observation in (
        [0.0, budget],
        np.array([0.0, budget]),
        np.array([0.0, budget], dtype=np.float32) if budget not in {0.999, 4.999} else [0.0, budget],
        {"budget": budget},
    ):
        assert BY_BUDGET.choose(observation, [0, 1, 2], 0.7).position == played


def test_a_threshold_gives_way_to_the_first_feasible() -> None:
    assert BY_BUDGET.choose([0.0, 9.0], [0, 2], 0.0).position == 0
    assert BY_BUDGET.probabilities([0.0, 2.0], [1, 2]) == [0.0, 1.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "1", True])
def test_a_threshold_needs_a_finite_number(value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"features\.budget: expected a finite number"):
        BY_BUDGET.choose({"budget": value}, [0], 0.0)


@pytest.mark.parametrize(
    ("feature", "edges", "actions", "message"),
    [
        ("speed", (1.0,), ("OFF", "ALL"), "feature: expected a name of the feature schema, got 'speed'"),
        (
            "budget",
            (1.0, 1.0),
            ("OFF", "ALL", "OFF"),
            r"edges: expected strictly ascending numbers, got \[1.0, 1.0\]",
        ),
        ("budget", (1.0,), ("OFF",), "actions: expected 2 for 1 edges, got 1"),
        ("budget", (1.0,), ("OFF", "NONE"), r"actions\[1\]: expected an id of the catalogue, got 'NONE'"),
    ],
)
def test_a_threshold_whose_parts_do_not_fit_is_refused(
    feature: str, edges: tuple[float, ...], actions: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        ThresholdPolicy(CATALOGUE, SCHEMA, feature, edges, actions)


def test_an_edge_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"edges\[1\]: expected a finite number"):
        ThresholdPolicy(CATALOGUE, SCHEMA, "budget", (1.0, math.inf), ("OFF", "OFF", "ALL"))


def test_an_unknown_fixed_action_is_refused() -> None:
    with pytest.raises(InvalidSpecError, match="action: expected an id of the catalogue, got 'NONE'"):
        FixedActionPolicy(CATALOGUE, "NONE")


def test_random_play_is_uniform_over_the_mask() -> None:
    policy = SeededRandomPolicy(CATALOGUE, 3)
    assert policy.probabilities(None, [0, 2]) == [0.5, 0.5]
    assert [policy.choose(None, [0, 2], u).position for u in (0.0, 0.499, 0.5, 0.999)] == [0, 0, 2, 2]


def test_a_seed_repeats_its_draws_and_another_does_not() -> None:
    names = [f"episode 1 step {step}" for step in range(100)]
    first, again, other = ([SeededRandomPolicy(CATALOGUE, seed).draw(n) for n in names] for seed in (3, 3, 4))
    assert first == again
    assert all(0.0 <= u < 1.0 for u in first)
    assert not set(first) & set(other)
    assert len(set(first)) == len(names)
