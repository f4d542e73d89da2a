"""Whom to negotiate with: negotiators that NegMAS brings, some with a temper that is drawn each time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from negmas.sao import SAONegotiator
from negmas.sao.negotiators import (
    CABNegotiator,
    FastMiCRONegotiator,
    HybridNegotiator,
    MiCRONegotiator,
    NaiveTitForTatNegotiator,
    RandomNegotiator,
    TimeBasedConcedingNegotiator,
    TopFractionNegotiator,
    ToughNegotiator,
)

__all__ = ["OPPONENTS", "Opponent"]


@dataclass(frozen=True, slots=True)
class Opponent:
    """A kind of opponent; `make` returns a fresh negotiator from a random generator."""

    name: str
    manner: str  # for people
    make: Callable[[random.Random], SAONegotiator]


def _by_time(low: float, high: float) -> Callable[[random.Random], SAONegotiator]:
    """Return a maker of negotiators that ask for 1 - t^e, e drawn between `low` and `high`, evenly in its logarithm."""

    def make(generator: random.Random) -> SAONegotiator:
        exponent = math.exp(generator.uniform(math.log(low), math.log(high)))
        return TimeBasedConcedingNegotiator(name="opponent", offering_curve=exponent)

    return make


def _plain(kind: type[SAONegotiator]) -> Callable[[random.Random], SAONegotiator]:
    return lambda _: kind(name="opponent")


def _top_fraction(generator: random.Random) -> SAONegotiator:
    return TopFractionNegotiator(name="opponent", top_fraction=generator.uniform(0.1, 0.4))


def _whimsical(_: random.Random) -> SAONegotiator:
    return RandomNegotiator(name="opponent", p_acceptance=0.05, p_rejection=0.95, p_ending=0.0)


OPPONENTS: Mapping[str, Opponent] = {
    opponent.name: opponent
    for opponent in (
        Opponent("boulware", "gives way late", _by_time(2.0, 6.0)),
        Opponent("linear", "gives way evenly", _by_time(0.8, 1.25)),
        Opponent("conceder", "gives way early", _by_time(0.15, 0.5)),
        Opponent("tit-for-tat", "gives way as we do", _plain(NaiveTitForTatNegotiator)),
        Opponent("micro", "gives way one outcome for each new one of ours", _plain(MiCRONegotiator)),
        Opponent(
            "fast-micro", "the same, and hurries to have offered everything", _plain(FastMiCRONegotiator)
        ),
        Opponent("hybrid", "follows time first and us later", _plain(HybridNegotiator)),
        Opponent("cab", "offers downward, accepts whatever beats walking away", _plain(CABNegotiator)),
        Opponent("top-fraction", "wants one of its best outcomes, any of them", _top_fraction),
        Opponent("tough", "wants its best outcome only", _plain(ToughNegotiator)),
        Opponent("whimsical", "offers anything, accepts by chance", _whimsical),
    )
}
"""Every kind of opponent by name."""
