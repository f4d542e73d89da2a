"""Where the cells of a new version come from: worked out by hand, and against the rule spelled out naively."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from steersman.domain.answers import Group
from steersman.domain.records import Cell, CellKey, PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.domain.states import Factor, StateSpace
from steersman.usecases.migration_plan import Tally, changed_parts, trace_moves
from tests.support.lines import space, version

STAGES = space(stage=["open", "late"])

Pair = tuple[int, str]  # state and action


def origins(new: PolicyVersion, line: Sequence[PolicyVersion]) -> dict[Pair, tuple[int, int]]:
    """The (version, state) that each pair of the new version comes from."""
    moves = trace_moves(new, line)
    found: dict[Pair, tuple[int, int]] = {}
    for source in moves.sources:
        tally = Tally(moves)
        for state in range(source.version.states.size):
            for action in source.version.actions.ids:
                key = CellKey(source.version.number, state, action)
                there = tally.move(source, Cell(key, 0.0, 0, 0, 0.0))
                if there is not None:
                    assert (there, action) not in found
                    found[there, action] = (source.version.number, state)
    assert moves.untried.count == new.states.size * len(new.actions) - len(found)
    return found


def test_a_cell_stays_with_its_action_and_the_meaning_of_its_state() -> None:
    new = version(2, "ba", space(stage=["late", "open"]), parent=1)
    assert origins(new, [version(1, "ab", STAGES)]) == {
        (0, "a"): (1, 1),
        (0, "b"): (1, 1),
        (1, "a"): (1, 0),
        (1, "b"): (1, 0),
    }


def test_each_pair_comes_from_the_nearest_version_that_has_both() -> None:
    # a: 1 and 2 have it; open: 1 and 3 have it. Pair by pair:
    one = version(1, "ab", STAGES)
    two = version(2, "ab", space(stage=["late"]), parent=1)
    three = version(3, "b", STAGES, parent=2)
    four = version(4, "ab", STAGES, parent=3)
    assert origins(four, [three, two, one]) == {
        (0, "a"): (1, 0),
        (0, "b"): (3, 0),
        (1, "a"): (2, 0),
        (1, "b"): (3, 1),
    }


def test_the_fate_of_actions() -> None:
    one, two = version(1, "xab", parent=None), version(2, "abcd", parent=1)
    actions = trace_moves(version(3, "axcbn", parent=2), [two, one]).actions
    assert actions.kept == Group(2, ("a", "c"))
    assert actions.moved == Group(1, ("b",))
    assert actions.restored == Group(1, ("x",))
    assert actions.new == Group(1, ("n",))
    assert actions.parked == Group(1, ("d",))


def test_the_fate_of_states() -> None:
    one = version(1, "a", space(stage=["gone", "open", "late"]))
    two = version(2, "a", space(stage=["open", "late", "over"]), parent=1)
    states = trace_moves(
        version(3, "a", space(stage=["open", "gone", "late", "next"]), parent=2), [two, one]
    ).states
    assert states.kept == Group(1, ("stage=open",))
    assert states.moved == Group(1, ("stage=late",))
    assert states.restored == Group(1, ("stage=gone",))
    assert states.new == Group(1, ("stage=next",))
    assert states.parked == Group(1, ("stage=over",))


def test_pairs_that_nothing_is_known_of_are_new() -> None:
    moves = trace_moves(version(2, "abc", 3, parent=1), [version(1, "ab", 2)])
    # c in three states, a and b in the third.
    assert moves.untried.count == 5
    assert set(moves.untried.shown) == {"state 0: c", "state 1: c", "state 2: c", "state 2: a", "state 2: b"}


def test_a_version_that_looks_like_a_nearer_one_gives_nothing_more() -> None:
    one, two, three = version(1, "ab"), version(2, "b", parent=1), version(3, "b", parent=2)
    moves = trace_moves(version(4, "ab", parent=3), [three, two, one])
    assert [source.version.number for source in moves.sources] == [3, 1]


def test_many_examples_are_cut_and_counted() -> None:
    states = trace_moves(version(2, "a", 30, parent=1), [version(1, "a", 100)]).states
    assert (states.kept.count, states.parked.count) == (30, 70)
    assert len(states.kept.shown) == len(states.parked.shown) == 20


def test_a_million_states_move() -> None:
    values = [str(value) for value in range(1000)]
    old = StateSpace((Factor("x", tuple(values)), Factor("y", tuple(values))))
    new = StateSpace((Factor("y", tuple(values)), Factor("x", tuple(values[1:]))))
    moves = trace_moves(version(2, "ab", new, parent=1), [version(1, "ab", old)])
    (source,) = moves.sources
    # (x, y) = (3, 7) was 3 * 1000 + 7 and is 7 * 999 + 2; x = 0 has no place.
    assert source.states[3007] == 7 * 999 + 2
    assert np.count_nonzero(source.states < 0) == 1000
    assert (moves.states.kept.count + moves.states.moved.count, moves.states.parked.count) == (999_000, 1000)


def test_parts_that_changed_are_named() -> None:
    spec = {"actions": ["a", "b"], "states": 2, "learning": {"alpha": 0.1}}
    before = TenantSpec.from_json(spec)

    def changed(**parts: object) -> tuple[str, ...]:
        return changed_parts(before, TenantSpec.from_json(spec | parts))

    assert changed() == ()
    assert changed(actions={"a": "A", "b": "b"}) == ("labels",)
    assert changed(actions=["b", "a"], states=3) == ("actions", "states")
    assert changed(learning={"alpha": "1/n"}, borrow_cap=5) == ("learning", "borrow_cap")


ACTIONS = st.permutations("abc").flatmap(lambda order: st.integers(1, 3).map(lambda n: "".join(order[:n])))
VALUES = st.permutations(["1", "2", "3"]).flatmap(lambda order: st.integers(1, 3).map(lambda n: order[:n]))
SPACES = st.one_of(
    st.integers(1, 4).map(StateSpace.plain),
    st.builds(lambda x: space(x=x), VALUES),
    st.builds(lambda x, y: space(x=x, y=y), VALUES, VALUES),
    st.builds(lambda x, y: space(y=y, x=x), VALUES, VALUES),
)


@given(st.lists(st.tuples(ACTIONS, SPACES), min_size=2, max_size=6))
def test_any_line_of_versions_follows_the_rule(line: list[tuple[str, StateSpace]]) -> None:
    versions = [
        version(number, actions, states, parent=number - 1 or None)
        for number, (actions, states) in enumerate(line, start=1)
    ]
    new, *nearest_first = reversed(versions)

    def meaning(states: StateSpace, index: int) -> object:
        return states.decode(index) or index

    expected = {}
    for state in range(new.states.size):
        for action in new.actions.ids:
            for old in nearest_first:
                same = [
                    index
                    for index in range(old.states.size)
                    if meaning(old.states, index) == meaning(new.states, state)
                ]
                if same and action in old.actions.ids:
                    expected[state, action] = (old.number, same[0])
                    break
    assert origins(new, nearest_first) == expected
