"""Where the decisions of older versions are learned and counted, worked out by hand."""

from __future__ import annotations

from steersman.domain.states import Factor, StateSpace
from steersman.usecases.lineage import Lineage, trace_lineage
from tests.support.lines import space, version

STAGES = space(stage=["open", "late"])
TURNED = space(stage=["late", "open"])
LATE = space(stage=["late"])


def with_gap(before: str | None) -> StateSpace:
    """Stages, and a factor that came later."""
    return StateSpace((*STAGES.factors, Factor("gap", ("wide", "small"), None, before)))


def place(lineage: Lineage, state: int, action: str) -> tuple[int, int]:
    found, index = lineage.resolve(state, action)
    return found.number, index


def holder(lineage: Lineage, state: int, action: str, *, latest: int) -> tuple[int, int]:
    found, index = lineage.visit_holder(state, action, latest_version=latest)
    return found.number, index


def test_the_active_version_learns_from_itself() -> None:
    lineage = trace_lineage(version(1, "ab", 3), [], version(1, "ab", 3))
    assert place(lineage, 2, "b") == (1, 2)
    assert holder(lineage, 2, "b", latest=1) == (1, 2)


def test_a_version_beside_the_line_keeps_its_own() -> None:
    # 2 was left behind when 3 restored 1.
    lineage = trace_lineage(version(3, "ab", parent=1), [version(1, "ab")], version(2, "ab", parent=1))
    assert place(lineage, 0, "a") == (2, 0)
    assert holder(lineage, 0, "a", latest=2) == (2, 0)


def test_a_state_is_found_by_its_meaning() -> None:
    lineage = trace_lineage(
        version(2, "ba", TURNED, parent=1), [version(1, "ab", STAGES)], version(1, "ab", STAGES)
    )
    assert place(lineage, 0, "a") == (2, 1)  # open
    assert place(lineage, 1, "a") == (2, 0)  # late


def test_a_retired_action_is_learned_in_the_nearest_version_that_has_it() -> None:
    one, two, three = version(1, "ab"), version(2, "abc", parent=1), version(3, "bc", parent=2)
    lineage = trace_lineage(three, [two, one], one)
    assert place(lineage, 0, "a") == (2, 0)
    assert place(lineage, 0, "b") == (3, 0)


def test_a_retired_state_is_learned_in_the_nearest_version_that_has_it() -> None:
    one, two = version(1, "a", STAGES), version(2, "a", TURNED, parent=1)
    lineage = trace_lineage(version(3, "a", LATE, parent=2), [two, one], one)
    assert place(lineage, 0, "a") == (2, 1)  # open, which is 1 in version 2
    assert place(lineage, 1, "a") == (3, 0)  # late


def test_a_state_that_went_and_came_back_is_found_again() -> None:
    one, two = version(1, "a", STAGES), version(2, "a", LATE, parent=1)
    lineage = trace_lineage(version(3, "a", TURNED, parent=2), [two, one], one)
    assert place(lineage, 0, "a") == (3, 1)
    assert place(lineage, 1, "a") == (3, 0)


def test_a_state_follows_the_value_that_it_had_before_a_factor_was_added() -> None:
    # In 3 the factor no longer says what was before, but the cells are where version 2 took them.
    one, two = version(1, "a", STAGES), version(2, "a", with_gap("small"), parent=1)
    turned = StateSpace((Factor("stage", ("late", "open")), Factor("gap", ("wide", "small"))))
    lineage = trace_lineage(version(3, "a", turned, parent=2), [two, one], one)
    assert place(lineage, 0, "a") == (3, 3)  # open, small
    assert place(lineage, 1, "a") == (3, 1)  # late, small


def test_a_state_is_where_its_cells_went() -> None:
    # The declaration changed its mind about `before`, which makes no version and moves no cell.
    one, two = version(1, "ab", STAGES), version(2, "ab", with_gap("small"), parent=1)
    lineage = trace_lineage(version(3, "ba", with_gap("wide"), parent=2), [two, one], one)
    assert place(lineage, 0, "a") == (3, 1)  # open, small


def test_plain_sizes_match_by_index() -> None:
    one, two = version(1, "a", 3), version(2, "a", 2, parent=1)
    lineage = trace_lineage(two, [one], one)
    assert [place(lineage, state, "a") for state in range(3)] == [(2, 0), (2, 1), (1, 2)]


def test_a_removed_factor_parks() -> None:
    one = version(1, "a", with_gap(None))
    lineage = trace_lineage(version(2, "a", STAGES, parent=1), [one], one)
    assert [place(lineage, state, "a") for state in range(4)] == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_a_moved_bin_edge_parks_the_bins_that_it_touches() -> None:
    old = StateSpace((Factor("gap", edges=(0.1, 0.2, 0.3)),))  # <0.1, 0.1..0.2, 0.2..0.3, >=0.3
    new = StateSpace((Factor("gap", edges=(0.1, 0.25, 0.3)),))  # <0.1, 0.1..0.25, 0.25..0.3, >=0.3
    one = version(1, "a", old)
    lineage = trace_lineage(version(2, "a", new, parent=1), [one], one)
    assert [place(lineage, state, "a") for state in range(4)] == [(2, 0), (1, 1), (1, 2), (2, 3)]


def test_a_visit_is_counted_in_the_copy_that_was_made_after_it() -> None:
    one, two = version(1, "ab"), version(2, "ba", parent=1)
    lineage = trace_lineage(two, [one], one)
    assert holder(lineage, 0, "a", latest=1) == (2, 0)


def test_a_visit_made_after_its_version_was_frozen_is_not_in_the_frozen_copy() -> None:
    # 2 is a frozen copy of 1, which went on; 3 restores 2.
    one, frozen, restored = version(1, "a"), version(2, "a", parent=1), version(3, "a", parent=2)
    lineage = trace_lineage(restored, [frozen, one], one)
    assert holder(lineage, 0, "a", latest=1) == (3, 0)  # decided before the copy
    assert holder(lineage, 0, "a", latest=2) == (1, 0)  # decided after it


def test_a_visit_of_a_retired_action_stays_with_what_is_parked() -> None:
    one, two = version(1, "ab"), version(2, "b", parent=1)
    lineage = trace_lineage(two, [one], one)
    assert holder(lineage, 0, "a", latest=1) == (1, 0)
    # Back in 3, with the visit.
    lineage = trace_lineage(version(3, "ab", parent=2), [two, one], one)
    assert holder(lineage, 0, "a", latest=1) == (3, 0)


def test_a_visit_is_not_carried_into_an_imported_version() -> None:
    one, two = version(1, "ab"), version(2, "ab", parent=1, origin="imported")
    assert holder(trace_lineage(two, [one], one), 0, "a", latest=1) == (1, 0)
    three = version(3, "ba", parent=2)
    assert holder(trace_lineage(three, [two, one], one), 0, "a", latest=1) == (1, 0)
    assert holder(trace_lineage(three, [two, one], two), 0, "a", latest=2) == (3, 0)


def test_a_visit_is_not_carried_into_an_imported_version_but_restored_from_behind_it() -> None:
    # a is retired in 2 and so missing in the import 3; 4 takes it from 1 again.
    one, two = version(1, "ab"), version(2, "b", parent=1)
    three = version(3, "b", parent=2, origin="imported")
    lineage = trace_lineage(version(4, "ab", parent=3), [three, two, one], one)
    assert holder(lineage, 0, "a", latest=1) == (4, 0)
    assert holder(lineage, 0, "b", latest=1) == (2, 0)


def test_a_visit_is_not_carried_where_a_version_in_between_gave_its_own_cell() -> None:
    # Version 2 adds the factor without saying what states had before; version 3 says it one version late, and takes
    # version 2's cell for (open, wide), which never had the visit.
    one, two = version(1, "ab", STAGES), version(2, "ab", with_gap(None), parent=1)
    three = version(3, "ba", with_gap("wide"), parent=2)
    lineage = trace_lineage(three, [two, one], one)
    assert place(lineage, 0, "a") == (3, 0)
    assert holder(lineage, 0, "a", latest=1) == (1, 0)
