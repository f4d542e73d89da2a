"""One camping domain to work by hand: we want food 5, water 4, firewood 3; they the other way round.

Outcomes are (food, water, firewood) for us. Raw worth is 5 f + 4 w + 3 e for us, and for them
3 (3 - f) + 4 (3 - w) + 5 (3 - e); walking away is 5, the best is 36, so scaled it is (raw - 5) / 31.
"""

from __future__ import annotations

from steersman.integrations.negmas.domains import Domain, camping_domains
from steersman.integrations.negmas.side import Side
from steersman.integrations.negmas.standing import Standing

__all__ = ["domain", "ours", "position", "scaled", "standing"]


def domain() -> Domain:
    """Return the domain named after both sides' priorities."""
    return next(found for found in camping_domains() if found.name == "camping 543-345")


def ours() -> Side:
    """Return the first side of it."""
    return domain().sides[0]


def position(*packages: int) -> int:
    """Return the position of an outcome: food, then water, then firewood, the last varying fastest."""
    food, water, firewood = packages
    return 16 * food + 4 * water + firewood


def scaled(raw: float) -> float:
    """Return raw points on the scale of a reward."""
    return (raw - 5) / 31


def standing(
    *offers: tuple[int, int, int], target: float = 1.0, time: float = 0.0, turn: int = 0
) -> Standing:
    """Return how we stand after these offers of theirs, with four turns to a card."""
    made = Standing(ours(), 4, time=time, turn=turn, target=target)
    for offer in offers:
        made.hear(position(*offer))
    return made
