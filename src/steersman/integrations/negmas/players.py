"""Players: one that learns through Steersman, and those that it is measured against."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from steersman.domain.records import ClosedEpisode, CloseRequest, DecideRequest, Decision
from steersman.errors import SteersmanError
from steersman.integrations.negmas.matches import Match, Turn
from steersman.integrations.negmas.negotiator import ready_cards, reasons_against
from steersman.integrations.negmas.standing import STATES, describe
from steersman.policies.tabular import UCBQTablePolicy

__all__ = ["FrozenPlayer", "LearningPlayer", "ListDecider", "OneCardPlayer", "UniformPlayer"]

_Answer = TypeVar("_Answer")


class ListDecider(Protocol):
    """What a learning player needs of Steersman: decisions and closings in lists."""

    def decide_many(self, requests: Sequence[DecideRequest]) -> list[Decision | SteersmanError]:
        """Return a decision or an error for each request."""
        ...

    def close_many(self, requests: Sequence[CloseRequest]) -> list[ClosedEpisode | SteersmanError]:
        """Return a closed episode or an error for each request."""
        ...


class LearningPlayer:
    """Asks for every card, exploring, and closes each match's episode with its outcome."""

    def __init__(self, decider: ListDecider, tenant: str) -> None:
        """Play for `tenant`; its episodes are named by the number of the match."""
        self._decider = decider
        self._tenant = tenant

    def choose(self, turns: Sequence[Turn]) -> list[str]:
        """Return the card that was decided on for each turn."""
        requests = [
            DecideRequest(
                self._tenant,
                describe(turn.standing),
                feasible=ready_cards(turn.standing),
                episode=self._episode(turn.match),
                metadata={"negotiation": turn.match.number, "domain": turn.match.domain.name},
                reasons=reasons_against(turn.standing),
            )
            for turn in turns
        ]
        return [_sound(answer).action for answer in self._decider.decide_many(requests)]

    def finish(self, ended: Sequence[tuple[Match, float]]) -> None:
        """Close the episodes of matches that ended."""
        closings = [CloseRequest(self._tenant, self._episode(match), outcome) for match, outcome in ended]
        for answer in self._decider.close_many(closings):
            _sound(answer)

    def _episode(self, match: Match) -> str:
        return f"negotiation-{match.number}"


def _sound(answer: _Answer | SteersmanError) -> _Answer:
    if isinstance(answer, SteersmanError):
        raise answer
    return answer


class _Unmoved:
    """Takes no note of how matches end."""

    def finish(self, ended: Sequence[tuple[Match, float]]) -> None:
        """Do nothing."""


class OneCardPlayer(_Unmoved):
    """Plays the same card all the time."""

    def __init__(self, card: str) -> None:
        """Take the card's id."""
        self._card = card

    def choose(self, turns: Sequence[Turn]) -> list[str]:
        """Return the card for each turn."""
        return [self._card] * len(turns)


class UniformPlayer(_Unmoved):
    """Plays any card that makes sense, each as likely."""

    def choose(self, turns: Sequence[Turn]) -> list[str]:
        """Return a card for each turn, drawn by the match and the turn."""
        return [
            random.Random(f"{t.match.seed} {t.standing.turn}").choice(ready_cards(t.standing)) for t in turns
        ]


class FrozenPlayer(_Unmoved):
    """Plays a table as it was learned, greedily, without learning further and without any database."""

    def __init__(self, policy: UCBQTablePolicy) -> None:
        """Take the table."""
        self._policy = policy

    def choose(self, turns: Sequence[Turn]) -> list[str]:
        """Return the greedy card for each turn; ties are drawn by the match and the turn."""
        return [self._choose(turn) for turn in turns]

    def _choose(self, turn: Turn) -> str:
        catalogue = self._policy.catalogue
        draw = random.Random(f"{turn.match.seed} {turn.standing.turn}").random()
        state = STATES.encode(describe(turn.standing))
        feasible = catalogue.positions(ready_cards(turn.standing))
        return catalogue.ids[self._policy.choose(state, feasible, draw, explore=False).position]
