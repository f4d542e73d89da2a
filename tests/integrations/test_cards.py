"""Cards: what each asks for, on cases worked by hand in the camping domain."""

from __future__ import annotations

import pytest

from steersman.integrations.negmas import cards
from steersman.integrations.negmas.negotiator import ready_cards, reasons_against
from steersman.integrations.negmas.standing import STATES, describe
from tests.integrations.camp import position, scaled, standing


def test_hold_firm_asks_for_the_same_again() -> None:
    assert cards.hold_firm(standing((0, 0, 3), target=0.8, time=0.9)) == cards.Move(0.8)


@pytest.mark.parametrize(
    ("card", "time", "target"),
    [
        (cards.boulware, 0.0, 1.0),
        (cards.boulware, 0.5, 15 / 16),
        (cards.linear, 0.25, 0.75),
        (cards.concede, 2.0**-20, 1 - 2.0**-7),  # 0.35 is 7/20
        (cards.concede, 1.0, 0.0),
    ],
)
def test_targets_that_follow_time(card: object, time: float, target: float) -> None:
    assert callable(card)
    assert card(standing(time=time)).target == pytest.approx(target, abs=1e-12)


def test_mirror_gives_way_by_what_the_opponent_gave() -> None:
    # Their offers are worth 9, then 13 points to us: 4 of 31 more.
    move = cards.mirror(standing((0, 0, 3), (0, 1, 3), target=0.9))
    assert move.target == pytest.approx(0.9 - 4 / 31)
    assert cards.mirror(standing((0, 1, 3), (0, 0, 3), target=0.9)).target == 0.9
    assert cards.mirror(standing((0, 0, 3), target=0.9)).target == 0.9


def test_trade_off_stays_on_its_curve_and_moves_toward_the_last_offer() -> None:
    # Worth 21 to 23 points, and one package from what they offered last.
    move = cards.trade_off(standing((3, 0, 0), (2, 0, 3), target=0.5))
    assert move == cards.Move(0.5, position(2, 1, 3))
    assert cards.trade_off(standing(target=0.5)) == cards.Move(0.5)


def test_split_the_difference_once() -> None:
    # Their best offer is worth 15 points, though their last is not.
    move = cards.split_the_difference(standing((3, 0, 0), (0, 0, 1), target=1.0))
    assert move.target == pytest.approx((1 + 10 / 31) / 2)
    later = standing((3, 0, 0), target=0.66, turn=1)
    assert cards.split_the_difference(later) == cards.Move(0.66)
    again = standing((3, 0, 0), target=0.66, turn=4)
    assert cards.split_the_difference(again).target == pytest.approx((0.66 + 10 / 31) / 2)


def test_settle_asks_for_the_best_offer_so_far() -> None:
    move = cards.settle(standing((3, 0, 0), (0, 0, 3), target=0.9))
    assert move == cards.Move(scaled(15), position(3, 0, 0))
    # 3 points are worse than walking away: there is nothing to settle for.
    assert cards.settle(standing((0, 0, 1), target=0.9)) == cards.Move(0.9)


def test_cards_that_make_no_sense_are_not_ready() -> None:
    assert ready_cards(standing()) == ["hold", "boulware", "linear", "concede"]
    assert set(reasons_against(standing())) == {"mirror", "trade", "split", "settle"}
    assert ready_cards(standing((0, 0, 1))) == [card.id for card in cards.CARDS if card.id != "settle"]
    assert reasons_against(standing((3, 0, 0))) == {}


def test_state_is_what_the_negotiator_sees() -> None:
    assert STATES.size == 6 * 3 * 2 * 2
    fresh = STATES.decode(STATES.encode(describe(standing(time=1 / 25))))
    assert fresh == {"time": "<0.17", "best_offer": "<0.2", "movement": "<0.03", "own_target": ">=0.7"}
    # Five offers of 9 points and then one of 13: 4 of 31 within the last four turns.
    offers = [(0, 0, 3)] * 5 + [(0, 1, 3)]
    later = STATES.decode(STATES.encode(describe(standing(*offers, time=0.52, target=0.6))))
    assert later == {
        "time": "0.5..0.67",
        "best_offer": "0.2..0.5",
        "movement": ">=0.03",
        "own_target": "<0.7",
    }


def test_movement_looks_back_as_far_as_a_card_lasts() -> None:
    offers = [(0, 0, 3), (0, 1, 3), (0, 1, 3), (0, 1, 3), (0, 1, 3), (0, 1, 3)]
    assert standing(*offers[:5]).movement == pytest.approx(4 / 31)
    assert standing(*offers).movement == 0.0
    assert standing().movement == 0.0
