"""The contract of policies as checks: run them on any policy, with observations of the kind that it reads."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import fsum, sqrt
from statistics import NormalDist
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steersman.domain.records import SeenRow
from steersman.policies.arithmetic import draw_uniform
from steersman.policies.base import Choice, Policy

__all__ = [
    "BatchPolicy",
    "CountingPolicy",
    "PolicyContractError",
    "check_policy",
    "chi_square_limit",
    "frequencies_fit",
]

_P = TypeVar("_P", bound=Policy)

_DECISIONS = 20_000
_BEFORE_REWARD = 1_000
_SECRET = b"policy contract"
_FALSE_ALARM = 1e-6  # the probability that a sound policy is taken for an unsound one
_FEWEST = 5.0  # choices to expect of an action before its frequency says anything by itself
_TOLERANCE = 1e-9


class PolicyContractError(AssertionError):
    """A policy does not keep the contract; the message begins with the name of the check."""

    def __init__(self, check: str, finding: str) -> None:
        """Name the `check` and what it found."""
        super().__init__(f"{check}: {finding}")
        self.check = check


@runtime_checkable
class CountingPolicy(Policy, Protocol):
    """A policy that counts what it chose before it hears what came of it."""

    def seen(self, observation: Any, feasible: Sequence[int], /) -> SeenRow:
        """Return what is known of the actions at the positions `feasible`."""
        ...

    def decide(self, secret: bytes, decision_id: str, observation: Any, feasible: Sequence[int], /) -> Choice:
        """Choose by the draw of `decision_id` and count the visit."""
        ...

    def learn(self, observation: Any, position: int, target: float, /) -> None:
        """Move what is known of one action toward `target`."""
        ...


@runtime_checkable
class BatchPolicy(Protocol):
    """A policy that can value many observations at once."""

    def batch_values(self, features: NDArray[Any], /) -> NDArray[np.float64]:
        """Return the value of every action: [N, D] -> [N, A]."""
        ...


def check_policy(policy: Policy, observations: Sequence[Any]) -> list[str]:
    """Check that `policy` keeps the contract on `observations`; return the names of the checks that applied.

    Observations are state indices for tabular policies and feature vectors for fitted ones. Of the last one a
    policy that counts its choices should know nothing yet. `policy` is left as it was, after some 25,000 choices.
    Raises PolicyContractError with the first finding.
    """
    checks = _CHECKS + (_COUNTING_CHECKS if isinstance(policy, CountingPolicy) else ())
    names = [check.__name__.lstrip("_") for check in checks]
    for name, check in zip(names, checks, strict=True):
        for finding in check(policy, observations):
            raise PolicyContractError(name, finding)
    return names


def chi_square_limit(freedom: int, *, exceeded: float) -> float:
    """Return the value that a chi-square of `freedom` degrees exceeds with the probability `exceeded`.

    By the cube-root approximation of Wilson and Hilferty (1931): far out a little too high, 15 % at the most for
    `exceeded` from 1e-6.
    """
    spread = 2.0 / (9.0 * freedom)
    return float(freedom * (1.0 - spread + NormalDist().inv_cdf(1.0 - exceeded) * sqrt(spread)) ** 3)


def frequencies_fit(counts: Mapping[int, int], expected: Mapping[int, float]) -> bool:
    """Return whether `counts` by position may come from draws with the `expected` counts, by Pearson's chi-square.

    Positions of which fewer than five are expected count together. A sound policy is refused with a probability
    of 1e-6; what is expected never must never have come.
    """
    if any(count and not expected.get(position) for position, count in counts.items()):
        return False
    rare = {position for position, mean in expected.items() if mean < _FEWEST}
    cells = [(counts.get(position, 0), expected[position]) for position in expected.keys() - rare]
    pooled = fsum(expected[position] for position in rare)
    if pooled:
        cells.append((sum(counts.get(position, 0) for position in rare), pooled))
    statistic = fsum((count - mean) ** 2 / mean for count, mean in cells)
    return len(cells) < 2 or statistic <= chi_square_limit(len(cells) - 1, exceeded=_FALSE_ALARM)


def _input_unchanged(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """Asking changes neither the observation nor the mask nor the policy."""
    before = _payload(policy)
    for observation, feasible, explore in _cases(policy, observations):
        given, mask = copy.deepcopy(observation), list(feasible)
        policy.action_values(observation, feasible)
        policy.probabilities(observation, feasible, explore=explore)
        policy.choose(observation, feasible, 0.5, explore=explore)
        if (_numbers(given), mask) != (_numbers(observation), feasible):
            yield f"observation {given!r}, feasible {mask} became {observation!r}, {feasible}"
        if _payload(policy) != before:
            yield f"the policy changed when it was asked about observation {given!r}"


def _mask_respected(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """What is chosen may be played, and there is one number for each action that may."""
    for observation, feasible, explore in _cases(policy, observations):
        shown = f"observation {observation!r}, feasible {feasible}, explore {explore}"
        values = policy.action_values(observation, feasible)
        chances = policy.probabilities(observation, feasible, explore=explore)
        if not len(values) == len(chances) == len(feasible):
            yield f"{len(values)} values and {len(chances)} probabilities for {shown}"
        for u in (0.0, 0.5, 1.0 - 2.0**-53):
            position = policy.choose(observation, feasible, u, explore=explore).position
            if position not in feasible:
                yield f"the draw {u} played position {position} for {shown}"


def _probabilities_sum_to_one(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """Probabilities lie in [0, 1] and sum to one."""
    for observation, feasible, explore in _cases(policy, observations):
        chances = policy.probabilities(observation, feasible, explore=explore)
        if abs(fsum(chances) - 1.0) > _TOLERANCE or not all(0.0 <= chance <= 1.0 for chance in chances):
            yield f"{chances} for observation {observation!r}, feasible {feasible}, explore {explore}"


def _draw_falls_in_order(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """The middle of each action's share of [0, 1), laid out in catalogue order, falls on that action."""
    for observation, feasible, explore in _cases(policy, observations):
        chances = policy.probabilities(observation, feasible, explore=explore)
        for position, chance, end in zip(feasible, chances, accumulate(chances), strict=True):
            if chance <= _TOLERANCE:
                continue
            choice = policy.choose(observation, feasible, end - chance / 2.0, explore=explore)
            explored_fits = choice.explored == (chance < max(chances)) or min(chances) == max(chances)
            if (choice.position, choice.propensity) != (position, chance) or not explored_fits:
                yield f"{choice}, expected position {position} with {chance} out of {chances}"


def _frequencies_match(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """20,000 decision ids fall on the actions as often as their probabilities say."""
    feasible = _whole(policy)
    chances = policy.probabilities(observations[0], feasible)
    draws = (draw_uniform(_SECRET, f"decision {number}") for number in range(_DECISIONS))
    counts = Counter(policy.choose(observations[0], feasible, u).position for u in draws)
    expected = {position: chance * _DECISIONS for position, chance in zip(feasible, chances, strict=True)}
    if not frequencies_fit(counts, expected):
        yield f"played {dict(sorted(counts.items()))} in {_DECISIONS} decisions, expected {expected}"


def _draw_replays(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """The same draw makes the same choice, now, again, and by a copy from the payload."""
    copied = _reloaded(policy)
    for observation, feasible, explore in _cases(policy, observations):
        for u in (draw_uniform(_SECRET, f"replay {number}") for number in range(5)):
            choices = [p.choose(observation, feasible, u, explore=explore) for p in (policy, policy, copied)]
            if choices.count(choices[0]) != len(choices):
                yield f"the draw {u} made {choices} at observation {observation!r}, feasible {feasible}"


def _batch_equals_single(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """Values are the same bits for an observation whatever was asked before, and in a batch."""
    feasible = _whole(policy)
    single = [list(policy.action_values(observation, feasible)) for observation in observations]
    backward = [list(policy.action_values(observation, feasible)) for observation in reversed(observations)]
    if backward[::-1] != single:
        yield f"in turn {single}, the other way round {backward[::-1]}"
    if isinstance(policy, BatchPolicy):
        batch = policy.batch_values(np.array(observations)).tolist()
        if batch != single:
            yield f"as a batch {batch}, one by one {single}"


def _save_load_equal(policy: Policy, observations: Sequence[Any]) -> Iterator[str]:
    """A policy made from the payload has the same catalogue, values and probabilities, and the same payload."""
    copied = _reloaded(policy)
    if (copied.catalogue, _payload(copied)) != (policy.catalogue, _payload(policy)):
        yield f"{_payload(policy)} came back as {_payload(copied)}"
    for observation, feasible, explore in _cases(policy, observations):
        answers = [
            (p.action_values(observation, feasible), p.probabilities(observation, feasible, explore=explore))
            for p in (policy, copied)
        ]
        if answers[0] != answers[1]:
            yield f"{answers[0]} came back as {answers[1]} at observation {observation!r}"


def _cold_start(policy: CountingPolicy, observations: Sequence[Any]) -> Iterator[str]:
    """Where nothing is known, every action that may be played has the same probability."""
    for observation, feasible, explore in _cases(policy, observations[-1:]):
        chances = policy.probabilities(observation, feasible, explore=explore)
        if any(abs(chance - 1.0 / len(feasible)) > _TOLERANCE for chance in chances):
            yield f"{chances} for observation {observation!r}, explore {explore}"


def _ties_fair(policy: CountingPolicy, observations: Sequence[Any]) -> Iterator[str]:
    """Actions of which the same is known have the same probability."""
    own = _reloaded(policy)
    feasible = _whole(policy)
    yield from _unfair(own, observations)
    for number in range(3 * len(feasible)):
        own.decide(_SECRET, f"tie {number}", observations[-1], feasible)
        yield from _unfair(own, observations[-1:])
    for position in feasible:
        own.learn(observations[-1], position, 0.5)
    yield from _unfair(own, observations[-1:])


def _unfair(policy: CountingPolicy, observations: Sequence[Any]) -> Iterator[str]:
    for observation, feasible, explore in _cases(policy, observations):
        seen = policy.seen(observation, feasible)
        cells = zip(seen.q, seen.visits, seen.updates, seen.borrowed, strict=True)
        chances = policy.probabilities(observation, feasible, explore=explore)
        known: dict[tuple[float, ...], float] = {}
        for cell, chance in zip(cells, chances, strict=True):
            if known.setdefault(cell, chance) != chance:
                yield f"{known[cell]} and {chance} for actions with the same cell {cell}"


def _spread_before_reward(policy: CountingPolicy, observations: Sequence[Any]) -> Iterator[str]:
    """1,000 decisions before the first reward are counted one by one, go to the least chosen, and spread evenly."""
    own = _reloaded(policy)
    feasible = _whole(policy)
    counts = [0] * len(feasible)
    for number in range(_BEFORE_REWARD):
        chances = own.probabilities(observations[-1], feasible)
        if max(chances) > min(c for c, count in zip(chances, counts, strict=True) if count == min(counts)):
            yield f"the least chosen of {counts} are not the most probable of {chances}"
        counts[own.decide(_SECRET, f"spread {number}", observations[-1], feasible).position] += 1
        if list(own.seen(observations[-1], feasible).visits) != counts:
            yield f"counted {own.seen(observations[-1], feasible).visits} of {counts}"
    if not frequencies_fit(dict(enumerate(counts)), dict.fromkeys(feasible, _BEFORE_REWARD / len(feasible))):
        yield f"{counts} are not even"


_CHECKS: tuple[Callable[[Any, Sequence[Any]], Iterator[str]], ...] = (
    _input_unchanged,  # the first to ask: what asking changes may change only once
    _mask_respected,
    _probabilities_sum_to_one,
    _draw_falls_in_order,
    _frequencies_match,
    _draw_replays,
    _batch_equals_single,
    _save_load_equal,
)
_COUNTING_CHECKS = (_cold_start, _ties_fair, _spread_before_reward)


def _whole(policy: Policy) -> list[int]:
    return list(range(len(policy.catalogue)))


def _cases(policy: Policy, observations: Sequence[Any]) -> Iterator[tuple[Any, list[int], bool]]:
    """Yield each observation with several masks: all, every second, each alone; with and without exploration."""
    whole = _whole(policy)
    masks = [whole, whole[::2], whole[1::2], *([position] for position in whole)]
    for observation in observations:
        for mask in filter(None, masks):
            for explore in (True, False):
                yield observation, list(mask), explore


def _reloaded(policy: _P) -> _P:
    """Return a copy by way of the payload, written as JSON and read again."""
    return type(policy).from_payload(json.loads(json.dumps(policy.to_payload())))


def _payload(policy: Policy) -> str:
    return json.dumps(policy.to_payload(), sort_keys=True)


def _numbers(observation: Any) -> str:
    return repr(np.asarray(observation).tolist())  # as text, in which one NaN is like another
