"""The learned table: states by meaning, actions by label, own and borrowed evidence, the greedy one."""

from __future__ import annotations

from uuid import uuid4

import pytest

from steersman.domain.answers import LearnedCell, LearnedTable
from steersman.errors import NotFoundError
from steersman.library import Steersman
from steersman.usecases.show import show
from tests.support.company import Company

FACTORS = {"factors": [{"name": "stage", "values": ["open", "late"]}, {"name": "gap", "edges": [0.5]}]}
LABELS = {"hold": "Hold firm", "trade": "Trade off"}


def table(company: Company, **options: int | str) -> LearnedTable:
    return show(company.library.database, company.name, **options)  # type: ignore[arg-type]


def test_states_by_meaning_and_actions_by_label(shared_library: Steersman) -> None:
    """stage=late, gap=0.75 is the second bin of the second stage: index 3. The mean of 0.25 and 0.75 is 0.5."""
    company = Company.found(shared_library, actions=LABELS, states=FACTORS)
    company.teach("hold", 0.25, 0.75, state={"stage": "late", "gap": 0.75})
    shown = table(company)
    (state,) = shown.states
    assert (state.state, state.meaning, state.evidence) == (3, "stage=late, gap=>=0.5", 2)
    assert state.cells == (
        LearnedCell("hold", "Hold firm", 0.5, 2, 2, 0.0, greedy=True),
        LearnedCell("trade", "Trade off", 0.0, 0, 0, 0.0, greedy=False),
    )
    assert [cell.tried for cell in state.cells] == [True, False]
    assert (shown.version, shown.known_states, shown.all_states) == (1, 1, 4)
    assert shown.never_tried == ("Trade off",)


def test_the_states_with_the_most_evidence_come_first(shared_library: Steersman) -> None:
    company = Company.found(shared_library, states=5)
    for state, count in ((0, 1), (2, 3), (4, 3)):
        company.teach("hold", *([0.5] * count), state=state)
    shown = table(company, limit=2)
    assert [state.state for state in shown.states] == [2, 4]
    assert (shown.known_states, shown.all_states) == (3, 5)


def test_ties_are_all_greedy(company: Company) -> None:
    company.teach("hold", 0.5)
    company.teach("trade", 0.5)
    (state,) = table(company).states
    assert [cell.greedy for cell in state.cells] == [True, True]
    assert table(company).never_tried == ()


def test_borrowed_evidence_is_shown_apart_and_is_no_try(shared_library: Steersman) -> None:
    """Another's two rewards with mean 0.75 are borrowed as evidence of 2; the tenant itself has played hold once."""
    base = f"base-{uuid4().hex}"
    shared_library.create_base(base, {"actions": ["hold", "trade"], "states": 2})
    lender = Company.found(shared_library, base=base, contributes=True)
    lender.teach("trade", 0.5, 1.0)
    shared_library.build_base(base)
    company = Company.found(shared_library, base=base)
    company.play("hold")
    shown = table(company)
    (state,) = shown.states
    assert state.evidence == 3.0
    assert state.cells == (
        LearnedCell("hold", "hold", 0.0, 1, 0, 0.0, greedy=False),
        LearnedCell("trade", "trade", 0.75, 0, 0, 2.0, greedy=True),
    )
    assert shown.never_tried == ("trade",)
    merged = show(shared_library.database, f"@{base}")
    assert merged.states[0].cells[1] == LearnedCell("trade", "trade", 0.75, 2, 2, 0.0, greedy=True)


def test_a_prior_shows_before_anything_is_learned(shared_library: Steersman) -> None:
    company = Company.found(shared_library, priors={"trade": {"q": 0.6, "weight": 2}})
    company.play("hold")
    (state,) = table(company).states
    assert state.cells[1] == LearnedCell("trade", "trade", 0.6, 0, 0, 2.0, greedy=True)


def test_an_older_version_can_be_shown(company: Company) -> None:
    company.teach("hold", 0.5)
    company.library.freeze(company.name, "kept")
    company.teach("hold", 1.0)
    assert table(company).states[0].cells[0].q == 0.75
    assert table(company, version="kept").states[0].cells[0].q == 0.5
    assert table(company, version=2).states[0].cells[0].q == 0.5


def test_what_does_not_exist_is_refused(company: Company) -> None:
    with pytest.raises(NotFoundError, match="nothing was decided"):
        table(company)
    with pytest.raises(NotFoundError):
        show(company.library.database, "nobody")
