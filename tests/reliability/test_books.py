"""The books find what they are for: each planted fault is seen, and by its name."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from steersman.library import Steersman
from tests.reliability.books import Answer, Books, losses, read_books, reconcile
from tests.reliability.plans import CHAINS, PLAIN, make_plan, perform, prepare, strangers

SEED = 3
PLAN = make_plan("bookkeeper", SEED, 60)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Books, list[Answer]]:
    """The books after a plan without mishaps, and what was told."""
    path: Path = tmp_path_factory.mktemp("books") / "steersman.db"
    prepare(f"sqlite:///{path}")
    with Steersman.open(str(path)) as library:
        told = [answer for call in PLAN for answer in perform(library, call)]
    return read_books(f"sqlite:///{path}"), told


def test_sound_books_are_sound(kept: tuple[Books, list[Answer]]) -> None:
    books, told = kept
    assert reconcile(books) == []
    assert losses(books, told) == []
    assert strangers(books, PLAN) == []
    assert {row["tenant"] for row in books.learning_steps} == {PLAIN, CHAINS}
    assert {row["kind"] for row in books.learning_steps} == {"update", "further"}
    assert {row["status"] for row in books.decisions} == {"learned", "void"}


def applied_twice(books: Books) -> None:
    """A reward is learned from again, and the cell agrees with its steps."""
    step = next(row for row in books.learning_steps if row["tenant"] == PLAIN and row["kind"] == "update")
    cell = next(
        row for row in books.cells if all(row[name] == step[name] for name in ("tenant", "state", "action"))
    )
    size = 1.0 / (cell["updates"] + 1)
    books.learning_steps.append(step | {"number": cell["steps"] + 1, "step_size": size})
    cell["q"] += size * (step["target"] - cell["q"])
    cell["updates"] += 1
    cell["steps"] += 1


def visit_lost(books: Books) -> None:
    books.cells[0]["visits"] -= 1


def q_moved(books: Books) -> None:
    books.cells[0]["q"] += 1e-12


def step_lost(books: Books) -> None:
    del books.learning_steps[0]


def target_changed(books: Books) -> None:
    books.learning_steps[0]["target"] += 1e-9


def reward_lost(books: Books) -> None:
    del books.rewards[0]


def decision_left_open(books: Books) -> None:
    next(row for row in books.decisions if row["episode"] is not None)["status"] = "open"


def episode_lost(books: Books) -> None:
    del books.episodes[0]


@pytest.mark.parametrize(
    ("plant", "word"),
    [
        (applied_twice, "learned 2 times"),
        (visit_lost, "visits"),
        (q_moved, "q is"),
        (step_lost, "steps is"),
        (target_changed, "target"),
        (reward_lost, "rewards"),
        (decision_left_open, "open decisions"),
        (episode_lost, "no row"),
    ],
)
def test_a_fault_is_found(
    kept: tuple[Books, list[Answer]], plant: Callable[[Books], None], word: str
) -> None:
    books = deepcopy(kept[0])
    plant(books)
    assert any(word in line for line in reconcile(books))


def test_what_was_told_and_is_gone_or_otherwise_is_found(kept: tuple[Books, list[Answer]]) -> None:
    books, told = deepcopy(kept)
    gone = books.decisions.pop()
    books.rewards[0]["value"] += 0.5
    found = losses(books, told)
    assert any(gone["decision_id"] in line and "is not there" in line for line in found)
    assert any("acknowledged with value" in line for line in found)
