"""The negotiator: plays cards in real negotiations, and asks a real Steersman for them."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from negmas import make_issue
from negmas.outcomes import make_os
from negmas.preferences import LinearAdditiveUtilityFunction
from negmas.sao import SAOMechanism
from negmas.sao.negotiators import LinearTBNegotiator, ToughNegotiator

from steersman import Steersman
from steersman.errors import InvalidInputError
from steersman.integrations.negmas.cards import CARDS
from steersman.integrations.negmas.companies import declaration
from steersman.integrations.negmas.matches import Match, draw_matches, play
from steersman.integrations.negmas.negotiator import CardNegotiator, outcome_of
from steersman.integrations.negmas.players import OneCardPlayer, UniformPlayer
from steersman.integrations.negmas.side import Side
from steersman.usecases.episodes import list_episodes, show_episode
from tests.house.rules import ROOT
from tests.integrations.camp import domain, ours, scaled


def match(opponent: str) -> Match:
    """A match in which the opponent makes the first offer."""
    return Match(number=0, seed=1, domain=domain(), side=0, opponent=opponent, opens=False)


def negotiate(negotiator: CardNegotiator, opponent: Any) -> Any:
    """A negotiation of 24 rounds in which we make the first offer."""
    mechanism = SAOMechanism(outcome_space=domain().space, n_steps=24, sync_calls=True)
    mechanism.add(negotiator, ufun=domain().sides[0].function)
    mechanism.add(opponent, ufun=domain().sides[1].function)
    mechanism.run()
    return mechanism


def test_an_opponent_that_wants_everything_leaves_nothing() -> None:
    assert play([match("tough")], OneCardPlayer("linear")) == [0.0]


def test_holding_firm_takes_the_last_offer_rather_than_nothing() -> None:
    # This opponent offers its outcomes from its best downward, one a round, and takes nothing below 5 points. We ask
    # for everything, which leaves it 0, and so are left with the offer of the last round, its 24th best.
    worth = [
        (3 * (3 - food) + 4 * (3 - water) + 5 * (3 - wood), 5 * food + 4 * water + 3 * wood)
        for food, water, wood in product(range(4), repeat=3)
    ]
    level = sorted((theirs for theirs, _ in worth), reverse=True)[23]
    possible = [max(0.0, scaled(mine)) for theirs, mine in worth if theirs == level]
    (outcome,) = play([match("cab")], OneCardPlayer("hold"))
    assert any(outcome == pytest.approx(value, abs=1e-12) for value in possible)


def test_matches_end_the_same_whatever_is_played_beside_them() -> None:
    mix = {"micro": 1.0, "whimsical": 1.0, "top-fraction": 1.0}
    matches = draw_matches([domain()], mix, count=9, generator=random.Random(5))
    together = play(matches, UniformPlayer(), at_once=9)
    assert together == play(matches, UniformPlayer(), at_once=1)
    assert together[4:6] == play(matches[4:6], UniformPlayer())


def test_a_card_must_be_taken_before_a_turn() -> None:
    negotiator = CardNegotiator(side=ours())
    assert negotiator.due
    with pytest.raises(InvalidInputError, match="one of the cards"):
        negotiator.take("bluff")
    with pytest.raises(InvalidInputError, match="expected a card"):
        negotiate(negotiator, ToughNegotiator())


def test_it_asks_every_fourth_turn_and_closes_with_the_outcome(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        library.create_tenant("camper", declaration())
        negotiator = CardNegotiator(
            decider=library, tenant="camper", episode="first talk", metadata={"partner": "fair"}
        )
        mechanism = negotiate(negotiator, LinearTBNegotiator())
        detail = show_episode(library.database, "camper", "first talk")
    turns = negotiator.standing.turn
    assert len(detail.decisions) == -(-turns // 4)
    assert detail.episode.status == "closed"
    assert detail.episode.closed is not None
    assert detail.episode.closed.outcome == pytest.approx(outcome_of(ours(), mechanism.agreement))
    assert {decision.metadata["partner"] for decision in detail.decisions if decision.metadata} == {"fair"}
    opening = detail.decisions[0]
    # Nothing was heard yet, so half of the cards make no sense, and the reasons say so.
    assert opening.feasible == ("hold", "boulware", "linear", "concede")
    assert set(opening.reasons or ()) == {card.id for card in CARDS} - set(opening.feasible)
    assert all(decision.status == "learned" for decision in detail.decisions)


def test_no_agreement_closes_the_episode_with_nothing(sqlite_url: str) -> None:
    with Steersman.open(sqlite_url) as library:
        library.create_tenant("camper", declaration())
        # The other side's best outcome is worth 0 points to us, less than walking away.
        negotiator = CardNegotiator(decider=library, tenant="camper", explore=False)
        mechanism = negotiate(negotiator, ToughNegotiator())
        (episode,) = list_episodes(library.database, "camper")
    assert mechanism.agreement is None
    assert negotiator.standing.turn == 24
    assert episode.closed is not None
    assert (episode.closed.outcome, episode.steps) == (0.0, 6)


def test_a_utility_function_of_its_own_is_tabulated() -> None:
    # No reserved value: walking away is as bad as the worst price, 10, and the best is 40.
    space = make_os([make_issue([10, 20, 40], "price")])
    function = LinearAdditiveUtilityFunction(
        values={"price": {10: 10.0, 20: 20.0, 40: 40.0}}, weights=[1.0], outcome_space=space
    )
    side = Side.of(function, space)
    assert side.utility == pytest.approx((0.0, 1 / 3, 1.0))
    assert outcome_of(side, (20,)) == pytest.approx(1 / 3)


def test_issues_that_are_not_discrete_are_refused() -> None:
    space = make_os([make_issue((0.0, 1.0), "price")])
    function = LinearAdditiveUtilityFunction(
        values={"price": lambda price: price}, weights=[1.0], outcome_space=space
    )
    with pytest.raises(InvalidInputError, match="discrete issues"):
        Side.of(function, space)


def test_a_side_that_gains_from_nothing_is_refused() -> None:
    space = make_os([make_issue([10, 20], "price")])
    function = LinearAdditiveUtilityFunction(
        values={"price": {10: 1.0, 20: 2.0}}, weights=[1.0], outcome_space=space, reserved_value=3.0
    )
    with pytest.raises(InvalidInputError, match="walking away"):
        Side.of(function, space)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "negotiation.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    database = str(tmp_path / "negotiations.db")
    names: dict[str, Any] = {}
    exec(example.replace("negotiations.db", database), names)
    with Steersman.open(database) as library:
        (episode,) = list_episodes(library.database, "camper")
    assert episode.closed is not None
    assert episode.closed.outcome == pytest.approx(
        outcome_of(names["us"].standing.side, names["mechanism"].agreement)
    )
