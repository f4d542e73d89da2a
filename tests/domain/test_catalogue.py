from __future__ import annotations

from typing import Any

import pytest

from steersman.domain.catalogue import MAX_ACTIONS, ActionCatalogue
from steersman.errors import InvalidActionError, InvalidSpecError

CARDS = ActionCatalogue.of(["hold", 7, "trade"])


def test_a_card_number_stands_for_its_text() -> None:
    assert CARDS.ids == ("hold", "7", "trade")
    assert CARDS.positions([7]) == CARDS.positions(["7"]) == (1,)
    assert len(CARDS) == 3


def test_positions_come_in_catalogue_order() -> None:
    assert CARDS.positions(["trade", "hold"]) == (0, 2)
    assert CARDS.positions(None) == (0, 1, 2)


@pytest.mark.parametrize(
    ("feasible", "message"),
    [
        ([], "expected at least one action id, got none"),
        (["hold", "fold"], r"expected ids among \['hold', '7', 'trade'\], got 'fold'"),
        (["hold", "hold"], "expected each action id once"),
        ([7, "7"], "expected each action id once"),
        ([True], "feasible: expected .* got True"),
    ],
)
def test_a_bad_mask_is_refused(feasible: list[Any], message: str) -> None:
    with pytest.raises(InvalidActionError, match=message):
        CARDS.positions(feasible)


def test_a_long_catalogue_is_not_spelled_out() -> None:
    with pytest.raises(InvalidActionError, match=r"'11', \.\.\. 40 in all\]"):
        ActionCatalogue.of(range(40)).positions(["x"])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "expected 1 to 10000 action ids, got 0"),
        (range(MAX_ACTIONS + 1), "got 10001"),
        (["a", "b", "a"], r"expected distinct action ids, got \['a'\] more than once"),
        ([1, "1"], "distinct"),
    ],
)
def test_a_bad_catalogue_is_refused(ids: Any, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        ActionCatalogue.of(ids)


@pytest.mark.parametrize("action", ["", "a\nb", "a\x00", "\ud800", "x" * 201, None, 1.5, True])
def test_an_action_id_is_an_id(action: Any) -> None:
    with pytest.raises(InvalidSpecError, match=r"actions\[1\]"):
        ActionCatalogue.of(["a", action])


def test_the_fingerprint_tells_order_and_not_labels() -> None:
    assert CARDS.fingerprint == ActionCatalogue.of(["hold", "7", "trade"]).fingerprint
    assert CARDS.fingerprint != ActionCatalogue.of(["7", "hold", "trade"]).fingerprint


def test_positions_move_by_id() -> None:
    assert CARDS.remap(ActionCatalogue.of(["trade", "new", "hold"])).tolist() == [2, -1, 0]
