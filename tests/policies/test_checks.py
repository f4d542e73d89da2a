"""Each check of the contract fails on a policy that breaks it, and names itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from steersman.domain.catalogue import ActionCatalogue
from steersman.policies.action_value import ActionValuePolicy
from steersman.policies.arithmetic import mixture
from steersman.policies.base import Choice, choose_from_greedy
from steersman.policies.checks import PolicyContractError, check_policy, chi_square_limit, frequencies_fit
from steersman.policies.fixed import FixedActionPolicy
from steersman.policies.tabular import UCBQTablePolicy
from tests.policies.examples import CARDS, VECTORS
from tests.support.fitted import CATALOGUE, SCHEMA, mlp

Positions = Sequence[int]


class PlaysOutsideTheMask(UCBQTablePolicy):
    def choose(self, observation: int, feasible: Positions, u: float, *, explore: bool = True) -> Choice:  # noqa: ARG002
        return super().choose(observation, range(len(self.catalogue)), u, explore=explore)


class AnswersForTheWholeCatalogue(UCBQTablePolicy):
    def action_values(self, observation: int, feasible: Positions) -> list[float]:  # noqa: ARG002
        return super().action_values(observation, range(len(self.catalogue)))


class SharesExplorationAmongAll(UCBQTablePolicy):
    """The share of exploration is divided by the size of the catalogue, not of the mask."""

    def probabilities(self, observation: int, feasible: Positions, *, explore: bool = True) -> list[float]:
        chances = super().probabilities(observation, feasible, explore=explore)
        return [chance * len(feasible) / len(self.catalogue) for chance in chances]


class DrawsFromTheEnd(UCBQTablePolicy):
    def choose(self, observation: int, feasible: Positions, u: float, *, explore: bool = True) -> Choice:
        return super().choose(observation, feasible, 1.0 - 2.0**-53 - u, explore=explore)


class LogsTheGreedyShare(UCBQTablePolicy):
    """The logged propensity leaves out that exploration may have chosen the same action."""

    def choose(self, observation: int, feasible: Positions, u: float, *, explore: bool = True) -> Choice:
        choice = super().choose(observation, feasible, u, explore=explore)
        return replace(choice, propensity=choice.propensity * 0.9)


class StretchesTheDraw(UCBQTablePolicy):
    """The middles of the shares fall right, and yet some actions are played too often."""

    def choose(self, observation: int, feasible: Positions, u: float, *, explore: bool = True) -> Choice:
        return super().choose(observation, feasible, min(u * 1.05, 1.0 - 2.0**-53), explore=explore)


@dataclass
class AlternatesWhatItSays(UCBQTablePolicy):
    asked: int = 0

    def choose(self, observation: int, feasible: Positions, u: float, *, explore: bool = True) -> Choice:
        self.asked += 1
        choice = super().choose(observation, feasible, u, explore=explore)
        return replace(choice, explored=bool(self.asked % 2))


class RemembersEveryState(UCBQTablePolicy):
    def action_values(self, observation: int, feasible: Positions) -> list[float]:
        self.table.rows.setdefault(observation, self.row(observation))
        return super().action_values(observation, feasible)


class SortsTheMask(FixedActionPolicy):
    def action_values(self, observation: Any, feasible: Positions) -> list[float]:
        values = super().action_values(observation, feasible)
        if isinstance(feasible, list):
            feasible.sort(reverse=True)
        return values


class ClipsInPlace(ActionValuePolicy):
    def vector(self, observation: Any) -> NDArray[np.float64]:
        observation[observation > 1.0] = 1.0
        return super().vector(observation)


class BatchesInFloat32(ActionValuePolicy):
    def batch_values(self, features: NDArray[Any]) -> NDArray[np.float64]:
        return super().batch_values(features).astype(np.float32).astype(np.float64)


@dataclass
class SmoothsOverTime(UCBQTablePolicy):
    """The values of one observation leak into the next."""

    before: list[float] = field(default_factory=list)

    def action_values(self, observation: int, feasible: Positions) -> list[float]:
        values = super().action_values(observation, feasible)
        leaked = self.before if len(self.before) == len(values) else values
        self.before = [value + observation for value in values]
        return leaked


class RoundsItsPayload(UCBQTablePolicy):
    def to_payload(self) -> dict[str, Any]:
        payload = super().to_payload()
        for row in payload["rows"].values():
            row[0] = [round(q, 3) for q in row[0]]
        return payload


class ForgetsWhatItLearned(UCBQTablePolicy):
    def to_payload(self) -> dict[str, Any]:
        return super().to_payload() | {"rows": {}}


@dataclass
class ByOneSet(UCBQTablePolicy):
    """A policy that plays the mixture around whatever `greedy` says."""

    def greedy(self, state: int, feasible: Positions, *, explore: bool) -> list[int]:
        raise NotImplementedError

    def probabilities(self, observation: int, feasible: Positions, *, explore: bool = True) -> list[float]:
        greedy = self.greedy(observation, feasible, explore=explore)
        return mixture(greedy, len(feasible), 0.1 if explore else 0.0)

    def choose(self, observation: int, feasible: Positions, u: float, *, explore: bool = True) -> Choice:
        greedy = self.greedy(observation, feasible, explore=explore)
        choice = choose_from_greedy(greedy, len(feasible), 0.1 if explore else 0.0, u)
        return replace(choice, position=feasible[choice.position])


class TakesTheFirstUntried(ByOneSet):
    def greedy(self, state: int, feasible: Positions, *, explore: bool) -> list[int]:
        visits = self.seen(state, feasible).visits if explore else [0] * len(feasible)
        return [visits.index(min(visits))]


class TakesTheFirstOfEquals(ByOneSet):
    def greedy(self, state: int, feasible: Positions, *, explore: bool) -> list[int]:  # noqa: ARG002
        visits = self.seen(state, feasible).visits
        untried = [place for place, count in enumerate(visits) if count == 0]
        return untried if len(untried) in {len(visits), 1} else [visits.index(min(visits))]


class PrefersWhatItPlayed(ByOneSet):
    def greedy(self, state: int, feasible: Positions, *, explore: bool) -> list[int]:  # noqa: ARG002
        visits = self.seen(state, feasible).visits
        return [place for place, count in enumerate(visits) if count == max(visits)]


class CountsRewardsOnly(UCBQTablePolicy):
    """Decisions that wait for their reward are not counted."""

    def decide(self, secret: bytes, decision_id: str, state: int, feasible: Positions) -> Choice:
        choice = super().decide(secret, decision_id, state, feasible)
        self.table.rows[state].visits[choice.position] -= 1
        return choice


def learned(kind: type[UCBQTablePolicy]) -> UCBQTablePolicy:
    """A table of `kind` that learned in state 0 what payloads must keep."""
    policy = kind(CARDS)
    for number in range(9):
        choice = policy.decide(b"secret", f"planted {number}", 0, [0, 1, 2, 3])
        policy.learn(0, choice.position, (number % 4) / 3.0)
    return policy


def network(kind: type[ActionValuePolicy]) -> ActionValuePolicy:
    made = mlp()
    return kind(CATALOGUE, SCHEMA, made.scaling, made.layers)


PLANTED = [
    ("mask_respected", learned(PlaysOutsideTheMask)),
    ("mask_respected", AnswersForTheWholeCatalogue(CARDS)),
    ("probabilities_sum_to_one", SharesExplorationAmongAll(CARDS)),
    ("draw_falls_in_order", DrawsFromTheEnd(CARDS)),
    ("draw_falls_in_order", LogsTheGreedyShare(CARDS)),
    ("frequencies_match", StretchesTheDraw(CARDS)),
    ("draw_replays", AlternatesWhatItSays(CARDS)),
    ("draw_replays", learned(ForgetsWhatItLearned)),
    ("input_unchanged", RemembersEveryState(CARDS)),
    ("input_unchanged", SortsTheMask(CARDS, "trade")),
    ("input_unchanged", network(ClipsInPlace)),
    ("batch_equals_single", network(BatchesInFloat32)),
    ("batch_equals_single", SmoothsOverTime(CARDS)),
    ("save_load_equal", learned(RoundsItsPayload)),
    ("cold_start", TakesTheFirstUntried(CARDS)),
    ("ties_fair", TakesTheFirstOfEquals(CARDS)),
    ("spread_before_reward", PrefersWhatItPlayed(CARDS)),
    ("spread_before_reward", CountsRewardsOnly(CARDS)),
]


@pytest.mark.parametrize(
    ("check", "policy"), [pytest.param(*case, id=type(case[1]).__name__) for case in PLANTED]
)
def test_a_planted_violation_is_found_by_its_check(check: str, policy: Any) -> None:
    observations = [vector.copy() for vector in VECTORS] if policy.kind == "action_value_mlp" else [0, 1, 9]
    with pytest.raises(PolicyContractError, match=f"^{check}: ") as caught:
        check_policy(policy, observations)
    assert caught.value.check == check


def test_the_policy_that_was_checked_is_as_before() -> None:
    policy = UCBQTablePolicy(ActionCatalogue.of(["a", "b"]))
    check_policy(policy, [0])
    assert policy.to_payload()["rows"] == {}


@pytest.mark.parametrize(
    ("freedom", "exceeded", "tabulated"),
    [(1, 0.05, 3.841), (3, 0.05, 7.815), (9, 0.05, 16.919), (3, 0.001, 16.266), (99, 0.001, 148.230)],
)
def test_the_limit_is_that_of_printed_tables(freedom: int, exceeded: float, tabulated: float) -> None:
    assert chi_square_limit(freedom, exceeded=exceeded) == pytest.approx(tabulated, rel=0.03)


# With one degree of freedom the limit at 1e-6 is about 5 standard deviations (in truth 4.9). Of 20,000 fair tosses
# the standard deviation is sqrt(20000 / 4) = 70.7, so 10,300 heads (4.2 of them) pass and 10,400 (5.7) do not.
@pytest.mark.parametrize(("heads", "fits"), [(10_000, True), (10_300, True), (10_400, False), (9_600, False)])
def test_frequencies_are_judged_by_their_deviation(heads: int, fits: bool) -> None:
    expected = {0: 10_000.0, 1: 10_000.0}
    assert frequencies_fit({0: heads, 1: 20_000 - heads}, expected) == fits


def test_what_cannot_come_must_not_come() -> None:
    assert frequencies_fit({0: 20_000}, {0: 20_000.0, 1: 0.0})
    assert not frequencies_fit({0: 19_999, 1: 1}, {0: 20_000.0, 1: 0.0})
    assert not frequencies_fit({0: 19_999, 2: 1}, {0: 20_000.0})


def test_rare_actions_count_together() -> None:
    expected = {0: 19_980.0} | dict.fromkeys(range(1, 101), 0.2)
    assert frequencies_fit({0: 19_980, **dict.fromkeys(range(1, 21), 1)}, expected)
    assert not frequencies_fit({0: 19_940, **dict.fromkeys(range(1, 61), 1)}, expected)
