"""Negotiations to be played: drawn from a seed, so that every player can meet the very same ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from negmas.sao import SAOMechanism, SAOState

from steersman.integrations.negmas.domains import Domain
from steersman.integrations.negmas.negotiator import CardNegotiator, outcome_of
from steersman.integrations.negmas.opponents import OPPONENTS
from steersman.integrations.negmas.standing import Standing

__all__ = ["ROUNDS", "Match", "Player", "Turn", "draw_matches", "play"]

ROUNDS = 24
_AT_ONCE = 12


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """One negotiation before it begins."""

    number: int
    seed: int  # of the opponent's temper and of its chances
    domain: Domain
    side: int  # 0 or 1, which side of the domain is ours
    opponent: str  # a name in OPPONENTS
    opens: bool  # whether we make the first offer


@dataclass(frozen=True, slots=True)
class Turn:
    """A match in which a card is due."""

    match: Match
    standing: Standing


class Player(Protocol):
    """Who plays: chooses cards, and is told how matches ended."""

    def choose(self, turns: Sequence[Turn]) -> Sequence[str]:
        """Return a card's id for each of `turns`, all of different matches."""
        ...

    def finish(self, ended: Sequence[tuple[Match, float]]) -> None:
        """Take note of matches that ended, each with its outcome, 0 to 1."""
        ...


def draw_matches(
    domains: Sequence[Domain], mix: Mapping[str, float], *, count: int, generator: random.Random
) -> list[Match]:
    """Return `count` matches against opponents from `mix` (name to weight), all else evenly drawn."""
    names, weights = list(mix), list(mix.values())
    return [
        Match(
            number=number,
            seed=generator.getrandbits(48),
            domain=generator.choice(domains),
            side=generator.randrange(2),
            opponent=generator.choices(names, weights)[0],
            opens=generator.random() < 0.5,
        )
        for number in range(count)
    ]


class _Mechanism(SAOMechanism):  # type: ignore[misc]  # NegMAS has no types
    """Keeps no copies of past states: nobody here reads them, and making them is a fifth of all the work."""

    @property
    def state4history(self) -> SAOState:
        return self.state


class _Live:
    """A match that is being played."""

    def __init__(self, index: int, match: Match, rounds: int) -> None:
        self.index = index
        self.match = match
        own, other = match.domain.sides[match.side], match.domain.sides[1 - match.side]
        self.negotiator = CardNegotiator(side=own, name="us")
        self.mechanism = _Mechanism(outcome_space=match.domain.space, n_steps=rounds, sync_calls=True)
        opponent = OPPONENTS[match.opponent].make(random.Random(match.seed))
        pairs = [(self.negotiator, own), (opponent, other)]
        for negotiator, side in pairs if match.opens else reversed(pairs):
            self.mechanism.add(negotiator, ufun=side.function)

    def step(self) -> bool:
        """Play one round; return whether the match has ended."""
        # NegMAS's negotiators draw from the one global generator; seeded anew for each round, it gives a match
        # the same chances whatever else is played in between.
        random.seed(self.match.seed ^ self.mechanism.state.step)
        state = self.mechanism.step()
        return bool(state.ended)

    def outcome(self) -> float:
        return outcome_of(self.match.domain.sides[self.match.side], self.mechanism.agreement)


def play(
    matches: Sequence[Match],
    player: Player,
    *,
    rounds: int = ROUNDS,
    at_once: int = _AT_ONCE,
    progress: Callable[[int], None] | None = None,
) -> list[float]:
    """Play `matches` in their order, up to `at_once` side by side, and return their outcomes, [M] float64.

    Each of them moves by one round in turn; the cards that are due before a round are chosen in one call, and so
    are endings reported. `progress` is called with the number of matches that ended.
    """
    outcomes = [0.0] * len(matches)
    waiting = enumerate(matches)
    live: list[_Live] = []
    while True:
        while len(live) < at_once and (following := next(waiting, None)) is not None:
            live.append(_Live(*following, rounds))
        if not live:
            return outcomes
        due = [entry for entry in live if entry.negotiator.due]
        if due:
            cards = player.choose([Turn(entry.match, entry.negotiator.standing) for entry in due])
            for entry, card in zip(due, cards, strict=True):
                entry.negotiator.take(card)
        ended = [entry for entry in live if entry.step()]
        if ended:
            live = [entry for entry in live if entry not in ended]
            for entry in ended:
                outcomes[entry.index] = entry.outcome()
            player.finish([(entry.match, outcomes[entry.index]) for entry in ended])
            if progress is not None:
                progress(len(ended))
