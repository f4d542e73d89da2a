"""The cards a negotiator plays: each says what to ask for at least, and at times which outcome to offer.

The tactics that follow time or the opponent's behaviour are those of Faratin, Sierra and Jennings, "Negotiation
decision functions for autonomous agents" (1998); the trade-off is that of the same authors' "Using similarity
criteria to make issue trade-offs in automated negotiations" (2002). Targets are the negotiator's own utility,
0 for walking away and 1 for its best outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steersman.integrations.negmas.standing import Standing

__all__ = [
    "CARDS",
    "Card",
    "Move",
    "boulware",
    "concede",
    "hold_firm",
    "linear",
    "mirror",
    "settle",
    "split_the_difference",
    "trade_off",
]

_BOULWARE_POWER = 4.0
_CONCEDER_POWER = 0.35
_TRADE_BAND = 0.08  # how much above the target a trade may lie, so that there is something to choose from


@dataclass(frozen=True, slots=True)
class Move:
    """What a card wants now: an offer worth at least `target`; `offer` None means the cheapest such outcome."""

    target: float
    offer: int | None = None


def hold_firm(standing: Standing) -> Move:
    """Ask for what was asked for before."""
    return Move(standing.target)


def boulware(standing: Standing) -> Move:
    """Give way late: 1 - t^4."""
    return Move(1.0 - standing.time**_BOULWARE_POWER)


def linear(standing: Standing) -> Move:
    """Give way evenly: 1 - t."""
    return Move(1.0 - standing.time)


def concede(standing: Standing) -> Move:
    """Give way early: 1 - t^0.35."""
    return Move(1.0 - standing.time**_CONCEDER_POWER)


def mirror(standing: Standing) -> Move:
    """Give way by as much as the opponent's last offer improved, tit for tat; never take anything back."""
    gained = standing.worth[-1] - standing.worth[-2] if len(standing.worth) > 1 else 0.0
    return Move(standing.target - max(0.0, gained))


def trade_off(standing: Standing) -> Move:
    """Ask for as much as before, in the form that is most like the opponent's last offer."""
    if not standing.offers:
        return Move(standing.target)
    offer = standing.side.nearest(standing.target, standing.offers[-1], band=_TRADE_BAND)
    return Move(standing.target, offer)


def split_the_difference(standing: Standing) -> Move:
    """Go halfway from the own last target to the best offer so far, once, and stay there."""
    if standing.turn_of_card:
        return Move(standing.target)
    return Move((standing.target + standing.best_worth) / 2.0)


def settle(standing: Standing) -> Move:
    """Accept now if what is offered is the best so far; else ask for that best offer."""
    if standing.best_worth <= 0.0:
        return Move(standing.target)
    return Move(standing.best_worth, standing.best)


@dataclass(frozen=True, slots=True)
class Card:
    """A card by its id, with a label for people and the functions that play it and say whether it makes sense."""

    id: str
    label: str
    play: Callable[[Standing], Move]
    ready: Callable[[Standing], bool]
    needs: str = ""  # what is missing when it is not ready


def _always(standing: Standing) -> bool:  # noqa: ARG001 - one signature for all cards
    return True


def _has_offer(standing: Standing) -> bool:
    return bool(standing.offers)


def _has_good_offer(standing: Standing) -> bool:
    return standing.best_worth > 0.0


_OFFER = "the opponent has offered nothing yet"

CARDS = (
    Card("hold", "hold firm", hold_firm, _always),
    Card("boulware", "give way late", boulware, _always),
    Card("linear", "give way evenly", linear, _always),
    Card("concede", "give way early", concede, _always),
    Card("mirror", "tit for tat", mirror, _has_offer, _OFFER),
    Card("trade", "trade off issues", trade_off, _has_offer, _OFFER),
    Card("split", "split the difference", split_the_difference, _has_offer, _OFFER),
    Card(
        "settle",
        "accept or ask for the best offer so far",
        settle,
        _has_good_offer,
        "no offer beats walking away",
    ),
)
"""Every card, in catalogue order."""
