"""How a negotiation stands for one side: what it has seen and asked for, and the state that this makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steersman.domain.states import Factor, StateSpace
from steersman.integrations.negmas.side import Side

__all__ = ["STATES", "Standing", "describe"]


@dataclass(slots=True)
class Standing:
    """What a negotiator knows in the course of one negotiation; utilities are its own, scaled."""

    side: Side
    turns_per_card: int
    time: float = 0.0  # the share of the time that is gone, 0 to 1
    turn: int = 0  # own turns taken
    target: float = 1.0  # what the own last offer was to be worth at least
    offers: list[int] = field(default_factory=list)  # [R] positions, what the opponent offered
    worth: list[float] = field(default_factory=list)  # [R] float64, the utility of each
    best: int | None = None  # position of the best of them

    def hear(self, offer: int) -> None:
        """Take note of an offer of the opponent, by position."""
        self.offers.append(offer)
        self.worth.append(self.side.utility[offer])
        if self.best is None or self.worth[-1] > self.side.utility[self.best]:
            self.best = offer

    @property
    def best_worth(self) -> float:
        """The utility of the best offer so far; 0, as walking away, when there was none or all are worse."""
        return 0.0 if self.best is None else max(0.0, self.side.utility[self.best])

    @property
    def turn_of_card(self) -> int:
        """How many turns the current card has been played."""
        return self.turn % self.turns_per_card

    @property
    def movement(self) -> float:
        """By how much the opponent's offers have improved during as many turns as a card lasts."""
        if not self.worth:
            return 0.0
        return self.worth[-1] - self.worth[max(0, len(self.worth) - 1 - self.turns_per_card)]


STATES = StateSpace(
    (
        Factor("time", edges=(0.17, 0.33, 0.5, 0.67, 0.83)),
        Factor("best_offer", edges=(0.2, 0.5)),
        Factor("movement", edges=(0.03,)),
        Factor("own_target", edges=(0.7,)),
    )
)
"""Time gone, best offer so far, the opponent's movement, own last target: 6 x 3 x 2 x 2 = 72 states."""


def describe(standing: Standing) -> Mapping[str, Any]:
    """Return the state as Steersman takes it: a number for each factor of STATES."""
    return {
        "time": standing.time,
        "best_offer": standing.best_worth,
        "movement": standing.movement,
        "own_target": standing.target,
    }
