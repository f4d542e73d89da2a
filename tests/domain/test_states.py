from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.domain.states import MAX_STATES, Factor, StateSpace
from steersman.errors import InvalidSpecError, InvalidStateError

STAGE = Factor("stage", ("open", "middle", "close"))
GAP = Factor("gap", edges=(0.1, 0.5))
SPACE = StateSpace((STAGE, GAP))


def test_the_last_factor_varies_fastest() -> None:
    assert len(SPACE) == 9
    assert SPACE.encode({"stage": "open", "gap": 0.0}) == 0
    assert SPACE.encode({"gap": 0.2, "stage": "open"}) == 1
    assert SPACE.encode({"stage": "middle", "gap": ">=0.5"}) == 5
    assert SPACE.decode(5) == {"stage": "middle", "gap": ">=0.5"}
    assert list(SPACE.decode(5)) == ["stage", "gap"]
    assert SPACE.describe(5) == "stage=middle, gap=>=0.5"
    assert SPACE.encode(8) == 8


def test_every_index_has_its_own_meaning() -> None:
    meanings = [SPACE.decode(index) for index in range(9)]
    assert [tuple(meaning.values()) for meaning in meanings] == list(
        product(("open", "middle", "close"), ("<0.1", "0.1..0.5", ">=0.5"))
    )
    assert [SPACE.encode(meaning) for meaning in meanings] == list(range(9))


@pytest.mark.parametrize(
    ("value", "index"),
    [
        (0.0999, 0),
        (0.1, 1),
        (0.4999, 1),
        (0.5, 2),
        (-1e300, 0),
        (7, 2),
        pytest.param(10**400, 2, id="huge"),
        ("0.1..0.5", 1),
    ],
)
def test_an_edge_belongs_to_the_bin_above_it(value: Any, index: int) -> None:
    assert GAP.index(value) == index


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, None, "0.3", [0.3]])
def test_what_lies_in_no_bin(value: Any) -> None:
    with pytest.raises(InvalidStateError, match="'gap': expected a finite number, or one of"):
        GAP.index(value)


def test_values_may_be_numbers() -> None:
    level = StateSpace.from_json({"factors": [{"name": "level", "values": [1, 2, 3]}]})
    assert level.encode({"level": 2}) == level.encode({"level": "2"}) == 1
    with pytest.raises(InvalidStateError, match=r"expected one of \['1', '2', '3'\], got 4"):
        level.encode({"level": 4})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (9, "expected an index from 0 to 8, got 9"),
        (-1, "expected an index from 0 to 8, got -1"),
        (True, "expected an index or a mapping of factor to value, got True"),
        (1.0, "expected an index or a mapping"),
        ("open", "expected an index or a mapping"),
        (None, "expected an index or a mapping"),
        ({"stage": "open"}, r"expected the factors \['stage', 'gap'\], got \['stage'\]"),
        ({"stage": "open", "gap": 0, "x": 1}, r"expected the factors \['stage', 'gap'\]"),
        ({"stage": "end", "gap": 0}, r"'stage': expected one of \['open', 'middle', 'close'\], got 'end'"),
        ({}, "expected the factors"),
    ],
)
def test_a_state_outside_the_space_is_refused(state: Any, message: str) -> None:
    with pytest.raises(InvalidStateError, match=message):
        SPACE.encode(state)


def test_a_plain_space_knows_indices_alone() -> None:
    plain = StateSpace.plain(3)
    assert plain.encode(2) == 2
    assert plain.decode(2) == {}
    assert plain.describe(2) == "state 2"
    with pytest.raises(InvalidStateError, match="no factors; expected an index from 0 to 2"):
        plain.encode({"stage": "open"})
    with pytest.raises(InvalidStateError, match="from 0 to 2, got 3"):
        plain.decode(3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (0, "expected 1 to 10000000 states, got 0"),
        (MAX_STATES + 1, "got 10000001"),
        (True, "expected {size: N} or {factors"),
        ({"size": 2.0}, "got 2.0"),
        ({"size": True}, "got True"),
        ({"size": 2, "factors": []}, "expected {size: N} or {factors"),
        ({"factors": []}, "expected 1 to"),
        ({"factors": ["stage"]}, r"states.factors\[0\]: expected a name and either values or edges"),
        ({"factors": [{"name": "a"}]}, "expected a name and either values or edges"),
        ({"factors": [{"name": "a", "values": [1], "edges": [1]}]}, "either values or edges"),
        ({"factors": [{"name": "a", "values": [1], "step": 2}]}, r"unexpected \['step'\]"),
        ({"factors": [{"name": "a", "values": "xy"}]}, "expected a list, got 'xy'"),
        ({"factors": [{"name": "a", "values": []}]}, "expected at least one value"),
        ({"factors": [{"name": "a", "values": ["x", "x"]}]}, "expected distinct values"),
        ({"factors": [{"name": "a", "values": ["x"], "before": "y"}]}, r"before: expected one of \['x'\]"),
        ({"factors": [{"name": "a", "edges": []}]}, "expected strictly ascending edges"),
        ({"factors": [{"name": "a", "edges": [2, 1]}]}, "expected strictly ascending edges"),
        ({"factors": [{"name": "a", "edges": [1, 1]}]}, "expected strictly ascending edges"),
        (
            {"factors": [{"name": "a", "values": ["x"]}] * 2},
            r"expected distinct factor names, got \['a', 'a'\]",
        ),
        (
            {"factors": [{"name": f"f{i}", "values": list(range(100))} for i in range(5)]},
            "got 10000000000",
        ),
        ("9", "expected {size: N}"),
    ],
)
def test_a_bad_space_is_refused(body: Any, message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        StateSpace.from_json(body)


@pytest.mark.parametrize("value", ["a\nb", "", "x" * 201, None, True])
def test_names_and_values_of_factors_are_ids(value: Any) -> None:
    with pytest.raises(InvalidSpecError):
        StateSpace.from_json({"factors": [{"name": value, "values": ["x"]}]})
    with pytest.raises(InvalidSpecError):
        StateSpace.from_json({"factors": [{"name": "a", "values": [value]}]})


@pytest.mark.parametrize("edge", [math.nan, math.inf, "1", None])
def test_edges_are_finite_numbers(edge: Any) -> None:
    with pytest.raises(InvalidSpecError, match=r"edges\[0\]: expected a finite number"):
        StateSpace.from_json({"factors": [{"name": "a", "edges": [edge]}]})


def test_the_declaration_comes_back() -> None:
    added = Factor("mood", ("calm", "angry"), before="calm")
    for space in (SPACE, StateSpace.plain(7), StateSpace((STAGE, added))):
        assert StateSpace.from_json(space.to_json()) == space


def test_the_fingerprint_is_of_what_tells_states_apart() -> None:
    with_before = StateSpace((Factor("stage", ("open", "close"), before="open"),))
    without = StateSpace((Factor("stage", ("open", "close")),))
    assert with_before.fingerprint == without.fingerprint
    turned = StateSpace((Factor("stage", ("close", "open")),))
    assert turned.fingerprint != without.fingerprint
    assert StateSpace.plain(2).fingerprint != without.fingerprint


def test_neighbouring_edges_keep_their_own_labels() -> None:
    factor = Factor("x", edges=(0.1, 0.1 + 2**-50))
    assert len(set(factor.values)) == 3


# Remapping: worked out by listing states, the last factor fastest.


def test_states_move_by_meaning() -> None:
    old = StateSpace((Factor("a", ("x", "y")), Factor("b", ("1", "2"))))  # x1 x2 y1 y2
    new = StateSpace((Factor("b", ("2", "1", "3")), Factor("a", ("y", "x"))))  # 2y 2x 1y 1x 3y 3x
    assert old.remap(new).tolist() == [3, 1, 2, 0]


def test_a_value_that_is_gone_parks_its_states() -> None:
    old = StateSpace((Factor("a", ("x", "y", "z")),))
    assert old.remap(StateSpace((Factor("a", ("z", "x")),))).tolist() == [1, -1, 0]


def test_a_moved_edge_parks_the_bins_beside_it() -> None:
    old = StateSpace((Factor("g", edges=(1.0, 2.0, 3.0)),))  # <1, 1..2, 2..3, >=3
    new = StateSpace((Factor("g", edges=(1.0, 2.5, 3.0)),))
    assert old.remap(new).tolist() == [0, -1, -1, 3]


def test_an_added_factor_takes_the_value_that_old_states_had() -> None:
    old = StateSpace((Factor("a", ("x", "y")),))
    added = Factor("b", ("1", "2"), before="2")
    assert old.remap(StateSpace((Factor("a", ("x", "y")), added))).tolist() == [1, 3]
    silent = Factor("b", ("1", "2"))
    assert old.remap(StateSpace((Factor("a", ("x", "y")), silent))).tolist() == [-1, -1]


def test_a_removed_factor_parks_everything() -> None:
    old = StateSpace((Factor("a", ("x", "y")), Factor("b", ("1",))))
    assert old.remap(StateSpace((Factor("a", ("x", "y")),))).tolist() == [-1, -1]


def test_plain_sizes_match_by_index() -> None:
    assert StateSpace.plain(4).remap(StateSpace.plain(3)).tolist() == [0, 1, 2, -1]
    assert StateSpace.plain(2).remap(StateSpace.plain(3)).tolist() == [0, 1]
    assert StateSpace.plain(2).remap(StateSpace((Factor("a", ("x", "y")),))).tolist() == [-1, -1]
    assert StateSpace((Factor("a", ("x", "y")),)).remap(StateSpace.plain(2)).tolist() == [-1, -1]


NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.lists(st.sampled_from(["1", "2", "3", "4"]), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def spaces(draw: st.DrawFn) -> StateSpace:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    factors = []
    for name in names:
        values = draw(VALUES)
        factors.append(Factor(name, values, before=draw(st.sampled_from([None, *values]))))
    return StateSpace(tuple(factors))


@given(spaces(), spaces())
def test_a_state_moves_to_the_one_with_its_meaning_or_nowhere(old: StateSpace, new: StateSpace) -> None:
    known = {frozenset(new.decode(index).items()): index for index in range(len(new))}
    before = {factor.name: factor.before for factor in new.factors}
    for index, moved in enumerate(old.remap(new).tolist()):
        meaning: dict[str, str | None] = dict(old.decode(index))
        full = {name: meaning.get(name, before[name]) for name in before} | meaning
        assert moved == known.get(frozenset(full.items()), -1)  # type: ignore[arg-type]
