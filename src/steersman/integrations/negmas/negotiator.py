"""A NegMAS negotiator that asks Steersman for a card every few turns and plays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import uuid4

from negmas.sao import ResponseType, SAONegotiator, SAOResponse, SAOState

from steersman.domain.records import ClosedEpisode, Decision
from steersman.errors import InvalidInputError
from steersman.integrations.negmas.cards import CARDS, Card
from steersman.integrations.negmas.side import TOLERANCE, Side
from steersman.integrations.negmas.standing import Standing, describe

__all__ = ["TURNS_PER_CARD", "CardNegotiator", "Decider", "outcome_of", "ready_cards", "reasons_against"]

TURNS_PER_CARD = 4

_BY_ID: Mapping[str, Card] = {card.id: card for card in CARDS}


class Decider(Protocol):
    """What a negotiator needs of Steersman; the facade has it, and whatever else speaks for one may too."""

    def decide(
        self,
        tenant: str,
        state: Mapping[str, Any],
        *,
        feasible: Sequence[str] | None = None,
        episode: str | None = None,
        explore: bool = True,
        metadata: Mapping[str, Any] | None = None,
        reasons: Mapping[str, str] | None = None,
    ) -> Decision:
        """Return the card to play."""
        ...

    def close_episode(self, tenant: str, episode: str, outcome: float | None = None) -> ClosedEpisode:
        """Say how the negotiation ended."""
        ...


def ready_cards(standing: Standing) -> list[str]:
    """Return the ids of the cards that make sense now, in catalogue order."""
    return [card.id for card in CARDS if card.ready(standing)]


def reasons_against(standing: Standing) -> dict[str, str]:
    """Return for each card that makes no sense now what it lacks."""
    return {card.id: card.needs for card in CARDS if not card.ready(standing)}


def outcome_of(side: Side, agreement: tuple[Any, ...] | None) -> float:
    """Return the reward of how a negotiation ended, 0 to 1: no agreement is worth as much as walking away."""
    return 0.0 if agreement is None else min(1.0, max(0.0, side.utility[side.position[agreement]]))


class CardNegotiator(SAONegotiator):  # type: ignore[misc]  # NegMAS has no types
    """Plays a card for `turns_per_card` turns, then another; accepts what its card asks for, or more.

    With a `decider` it asks for each card itself, within one episode, and closes that with the outcome when the
    negotiation ends. Without one, whoever runs the negotiation looks at `due` before each round and calls `take`.
    On its very last turn it accepts anything that beats walking away, whatever the card says.
    """

    def __init__(
        self,
        *,
        decider: Decider | None = None,
        tenant: str = "",
        side: Side | None = None,
        turns_per_card: int = TURNS_PER_CARD,
        episode: str | None = None,
        explore: bool = True,
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Take who decides and for whom; `side` saves the tables of its utility function being made anew.

        `episode` defaults to an id of its own; `options` are those of NegMAS, `ufun` and `name` among them.
        """
        super().__init__(**options)
        self.episode = episode if episode is not None else f"negotiation-{uuid4().hex}"
        self._decider = decider
        self._tenant = tenant
        self._turns_per_card = turns_per_card
        self._explore = explore
        self._metadata = metadata
        self._standing = None if side is None else Standing(side, turns_per_card)
        self._card: Card | None = None
        self._heard_at = -1

    @property
    def standing(self) -> Standing:
        """How the negotiation stands; made from the utility function when no side was given.

        Raises InvalidInputError when issues are not discrete, or no outcome beats walking away.
        """
        if self._standing is None:
            side = Side.of(self.ufun, self.nmi.outcome_space)
            self._standing = Standing(side, self._turns_per_card)
        return self._standing

    @property
    def due(self) -> bool:
        """Whether a card must be taken before the next turn."""
        return self.standing.turn_of_card == 0 and self._card is None

    def take(self, card: str) -> None:
        """Play the card with this id from now on. Raises InvalidInputError."""
        if card not in _BY_ID:
            raise InvalidInputError(f"expected one of the cards {sorted(_BY_ID)}, got {card!r}")
        self._card = _BY_ID[card]

    def __call__(self, state: SAOState, dest: str | None = None) -> SAOResponse:  # noqa: ARG002 - NegMAS's signature
        """Answer the offer on the table, with a counter-offer unless it is accepted."""
        standing = self.standing
        standing.time = state.relative_time
        offer = None if state.current_offer is None else standing.side.position[state.current_offer]
        # NegMAS calls again within a round when a call has failed.
        if offer is not None and self._heard_at != state.step:
            self._heard_at = state.step
            standing.hear(offer)
        if self.due:
            self._ask()
        card = self._card
        if card is None:
            raise InvalidInputError("expected a card to have been taken before this turn")
        move = card.play(standing)
        target = min(1.0, max(0.0, move.target))
        standing.target = target
        standing.turn += 1
        if standing.turn_of_card == 0:
            self._card = None
        if offer is not None and self._accepts(standing.side.utility[offer], target, state):
            return SAOResponse(ResponseType.ACCEPT_OFFER, state.current_offer)
        wanted = standing.side.cheapest(target) if move.offer is None else move.offer
        return SAOResponse(ResponseType.REJECT_OFFER, standing.side.outcomes[wanted])

    def _accepts(self, worth: float, target: float, state: SAOState) -> bool:
        last = self.nmi.n_steps is not None and state.step >= self.nmi.n_steps - 1
        return worth >= target - TOLERANCE or (last and worth > 0.0)

    def _ask(self) -> None:
        if self._decider is None:
            return
        decision = self._decider.decide(
            self._tenant,
            describe(self.standing),
            feasible=ready_cards(self.standing),
            episode=self.episode,
            explore=self._explore,
            metadata=self._metadata,
            reasons=reasons_against(self.standing),
        )
        self.take(decision.action)

    def propose(self, state: SAOState, dest: str | None = None) -> tuple[Any, ...] | None:
        """Return the offer of this turn, None when the offer on the table is accepted."""
        answer = self(state, dest)
        return answer.outcome if answer.response == ResponseType.REJECT_OFFER else None

    def on_negotiation_end(self, state: SAOState) -> None:
        """Close the episode with the outcome, if a card was ever asked for."""
        super().on_negotiation_end(state)
        if self._decider is not None and self.standing.turn:
            outcome = outcome_of(self.standing.side, state.agreement)
            self._decider.close_episode(self._tenant, self.episode, outcome)
