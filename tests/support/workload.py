"""A random but repeatable load of everything that hot use cases do, over tenants that learn in different ways."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steersman.domain.records import CloseRequest, DecideRequest, Decision, RewardRequest
from steersman.errors import SteersmanError
from steersman.library import Steersman
from steersman.store.clock import now
from steersman.usecases.expire import expire

__all__ = ["TENANTS", "Load"]

TENANTS: dict[str, dict[str, Any]] = {
    "mean": {"alpha": "1/n", "gamma": 1.0, "lambda": 0.0},
    "discounted": {"alpha": "1/n", "gamma": 0.9, "lambda": 0.0},
    "traces": {"alpha": "1/n", "gamma": 0.9, "lambda": 0.5},
    "returns": {"alpha": 0.2, "gamma": 0.9, "lambda": 1.0},
    "myopic": {"alpha": 0.3, "gamma": 0.0, "lambda": 0.5},
    "constant": {"alpha": 0.1, "gamma": 0.7, "lambda": 0.0},
}
"""The learning settings of each tenant, by name."""


@dataclass(slots=True)
class Load:
    """What a run of calls needs to remember to come back to its own decisions and episodes."""

    steersman: Steersman
    generator: random.Random
    decisions: dict[str, list[str]] = field(default_factory=dict)
    refused: int = 0

    def create(self) -> None:
        """Create the tenants: three actions, three states, every second one with a prior."""
        for number, (name, learning) in enumerate(TENANTS.items()):
            declaration = {
                "actions": ["a", "b", "c"],
                "states": 3,
                "learning": learning,
                "priors": {"b": {"q": 0.4, "weight": 1.5}} if number % 2 else {},
                "reward_wait": 1,
                "default_reward": 0.25,
            }
            self.steersman.create_tenant(name, declaration)

    def run(self, calls: int) -> None:
        """Make so many calls; what is refused, such as a decide in a closed episode, is counted and left."""
        kinds: tuple[Callable[[str, int], object], ...] = (
            self._decide,
            self._reward,
            self._void,
            self._close,
            self._expire,
        )
        for number in range(calls):
            tenant = self.generator.choice(list(TENANTS))
            (kind,) = self.generator.choices(kinds, weights=(50, 30, 8, 11, 1))
            try:
                kind(tenant, number)
            except SteersmanError:
                self.refused += 1

    def _decide(self, tenant: str, number: int) -> None:
        pick = self.generator
        requests = [
            DecideRequest(
                tenant,
                pick.randrange(3),
                pick.choice([None, None, ["a", "c"], ["b"], ["c", "b", "a"]]),
                None if pick.random() < 0.3 else self._episode(number),
                None if pick.random() < 0.7 else f"own-{pick.randrange(10**6)}",
                pick.random() < 0.8,
                {"call": number, "note": "ünï"} if pick.random() < 0.2 else None,
            )
            for _ in range(pick.choice([1, 1, 1, 4]))
        ]
        for answer in self.steersman.decide_many(requests):
            if isinstance(answer, Decision):
                self.decisions.setdefault(tenant, []).append(answer.decision_id)

    def _reward(self, tenant: str, _number: int) -> None:
        pick = self.generator
        self.steersman.reward_many(
            [
                RewardRequest(
                    tenant,
                    self._decision(tenant),
                    round(pick.random(), 3),
                    None if pick.random() < 0.6 else f"reward-{pick.randrange(10**6)}",
                )
                for _ in range(pick.choice([1, 1, 3]))
            ]
        )

    def _void(self, tenant: str, _number: int) -> None:
        self.steersman.void(tenant, self._decision(tenant))

    def _close(self, tenant: str, number: int) -> None:
        pick = self.generator
        self.steersman.close_many(
            [
                CloseRequest(tenant, self._episode(number), None if pick.random() < 0.3 else pick.random())
                for _ in range(pick.choice([1, 1, 2]))
            ]
        )

    def _expire(self, tenant: str, _number: int) -> None:
        expire(self.steersman.database, tenant, at=now() + 2_000_000)

    def _episode(self, number: int) -> str:
        return f"deal-{number // 150}-{self.generator.randrange(12)}"

    def _decision(self, tenant: str) -> str:
        return self.generator.choice(self.decisions.get(tenant, ["none"])[-20:])
