"""Choosing and updating in process, beside MABWiser's UCB1 and River's UCB.

Run with `python -m benchmarks.choice`. Each figure is the median of five rounds, in one process.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from mabwiser.mab import MAB, LearningPolicy
from river import bandit

from benchmarks.support import Lines, machine, median_of
from steersman.domain.catalogue import ActionCatalogue
from steersman.policies.arithmetic import draw_uniform
from steersman.policies.tabular import UCBQTablePolicy

_AIMS = {10: 8e-6, 100: 15e-6}  # seconds
_CALLS = 5000


def main() -> int:
    """Measure and print; return 1 when an aim was missed."""
    lines = Lines(
        f"Choice in process, µs a call, median of 5 ({machine()})",
        [
            "actions",
            "Steersman choose + draw",
            "choose + update",
            "MABWiser choose + update",
            "River choose + update",
        ],
    )
    for actions, aim in _AIMS.items():
        choose, *others = [median_of(partial(run, actions)) for run in (_choose, _both, _mabwiser, _river)]
        cells = [f"{value * 1e6:.1f}" for value in (choose, *others)]
        lines.add(str(actions), *cells, aim=f"choose + draw at most {aim * 1e6:.0f} µs", met=choose <= aim)
    lines.print()
    return int(bool(lines.missed))


def _timed(call: Callable[[int], object], calls: int = _CALLS) -> float:
    begin = time.perf_counter()
    for index in range(calls):
        call(index)
    return (time.perf_counter() - begin) / calls


def _trained(actions: int) -> tuple[UCBQTablePolicy, tuple[int, ...]]:
    policy = UCBQTablePolicy(ActionCatalogue.of(range(actions)))
    feasible = tuple(range(actions))
    generator = random.Random(7)
    for index in range(actions * 20):
        choice = policy.decide(b"secret", f"warm-{index}", 0, feasible)
        policy.learn(0, choice.position, generator.random())
    return policy, feasible


def _choose(actions: int) -> float:
    policy, feasible = _trained(actions)
    ids = [f"01a22c6a-9672-7352-9e57-{index:012d}" for index in range(_CALLS)]
    return _timed(lambda index: policy.choose(0, feasible, draw_uniform(b"secret", ids[index])))


def _both(actions: int) -> float:
    policy, feasible = _trained(actions)

    def step(index: int) -> None:
        choice = policy.decide(b"secret", f"d-{index}", 0, feasible)
        policy.learn(0, choice.position, (index % 7) / 7)

    return _timed(step)


def _mabwiser(actions: int) -> float:
    mab = MAB(list(range(actions)), LearningPolicy.UCB1(alpha=1.4), seed=7)
    generator = random.Random(7)
    history = [index % actions for index in range(actions * 20)]
    mab.fit(decisions=history, rewards=[generator.random() for _ in history])

    def step(index: int) -> None:
        mab.partial_fit([mab.predict()], [(index % 7) / 7])

    return _timed(step, _CALLS // 10)


def _river(actions: int) -> float:
    policy: Any = bandit.UCB(delta=1.4, seed=7)
    arms = list(range(actions))

    def step(index: int) -> None:
        arm = policy.pull(arms)
        policy.update(arm, (index % 7) / 7)

    _timed(step, actions * 20)
    return _timed(step, _CALLS // 10)


if __name__ == "__main__":
    raise SystemExit(main())
