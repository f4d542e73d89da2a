"""A random load of everything that changes what is learned, over tenants that differ in how."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steersman.domain.records import CloseRequest, DecideRequest, Decision, RewardRequest
from steersman.domain.states import State
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
        """Create a base, and the tenants: three actions, three states, every second one with a prior."""
        self.steersman.create_base("shared", {"actions": ["a", "b", "c", "d"], "states": 3})
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

    def run(self, calls: int, *, versions: bool = False) -> None:
        """Make so many calls, with `versions` some that make versions too.

        What is refused, such as a decide in a closed episode or of an action that is gone, is counted and left.
        """
        hot: dict[Callable[[str, int], object], int] = {
            self._decide: 50,
            self._reward: 30,
            self._void: 8,
            self._close: 11,
            self._expire: 1,
        }
        kinds = hot | dict.fromkeys((self._change, self._activate, self._roll_back, self._freeze), 1)
        kinds |= {self._base: 5}
        for number in range(calls):
            tenant = self.generator.choice(list(TENANTS))
            weights = kinds if versions else hot
            (kind,) = self.generator.choices(list(weights), weights=list(weights.values()))
            try:
                kind(tenant, number)
            except SteersmanError:
                self.refused += 1

    def _change(self, tenant: str, _number: int) -> None:
        pick = self.generator
        declared = self.steersman.show_tenant(tenant).spec.to_json()
        actions = pick.sample(["a", "b", "c", "d"], pick.choice([2, 3, 4]))
        sizes = {"size": pick.choice([2, 3, 4])}
        first = {"name": "stage", "values": pick.sample(["open", "late", "over"], pick.choice([2, 3]))}
        second = {"name": "gap", "values": ["wide", "narrow"], "before": pick.choice(["wide", "narrow"])}
        states = pick.choice([declared["states"], sizes, {"factors": [first]}, {"factors": [second, first]}])
        learning = pick.choice([declared["learning"], *TENANTS.values()])
        changes = {"actions": actions, "states": states, "learning": learning, "priors": {}, "base": "shared"}
        self.steersman.change_tenant(tenant, declared | changes | {"contributes": True})

    def _activate(self, tenant: str, _number: int) -> None:
        self.steersman.activate(tenant, self.generator.randrange(1, 12))

    def _roll_back(self, tenant: str, _number: int) -> None:
        self.steersman.roll_back(tenant)

    def _freeze(self, tenant: str, number: int) -> None:
        self.steersman.freeze(tenant, f"kept-{number}")

    def _base(self, tenant: str, number: int) -> None:
        if number % 2:
            self.steersman.build_base("shared")
        else:
            self.steersman.refresh(tenant)

    def _decide(self, tenant: str, number: int) -> None:
        pick = self.generator
        requests = [
            DecideRequest(
                tenant,
                self._state(),
                pick.choice([None, None, None, ["a", "c"], ["b"], ["c", "b", "a"]]),
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

    def _state(self) -> State:
        pick = self.generator
        stage = {"stage": pick.choice(["open", "late"])}
        both = stage | {"gap": pick.choice(["wide", "narrow"])}
        states: list[State] = [pick.randrange(3), pick.randrange(3), stage, both]
        return pick.choice(states)

    def _episode(self, number: int) -> str:
        return f"deal-{number // 150}-{self.generator.randrange(12)}"

    def _decision(self, tenant: str) -> str:
        return self.generator.choice(self.decisions.get(tenant, ["none"])[-20:])
