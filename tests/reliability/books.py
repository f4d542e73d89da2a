"""The books of a database, read with the driver alone and cast up again from the design, not from the code.

Nothing here imports what it judges: rows are read with plain SQL, and the arithmetic of learning is spelled out
once more.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any, TypeAlias

import psycopg
import pysqlite3

__all__ = ["Answer", "Books", "Row", "losses", "read_books", "reconcile"]

Row: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]
"""What a client was told: its `verb`, and columns of the row that it was told of."""

CellKey: TypeAlias = tuple[str, int, int, str]

_TABLES = (
    "policy_versions",
    "opening_cells",
    "cells",
    "decisions",
    "rewards",
    "learning_steps",
    "episodes",
)
_TOLD = {  # of each verb: the table that it was told of, and the key of the row there
    "decide": ("decisions", "decision_id"),
    "reward": ("rewards", "reward_id"),
    "close": ("episodes", "episode"),
    "void": ("decisions", "decision_id"),
}


@dataclass(frozen=True, slots=True)
class Books:
    """Every row of the tables that tell what happened and what was learned, of one moment."""

    policy_versions: list[Row]
    opening_cells: list[Row]
    cells: list[Row]
    decisions: list[Row]
    rewards: list[Row]
    learning_steps: list[Row]
    episodes: list[Row]

    def counts(self) -> dict[str, int]:
        """The number of rows of each table."""
        return {name: len(getattr(self, name)) for name in _TABLES}


@dataclass(slots=True)
class _Folded:
    """A cell as its history says it should be."""

    q: float = 0.0
    visits: int = 0
    updates: int = 0
    borrowed: float = 0.0
    steps: int = 0


@dataclass(slots=True)
class _Told:
    """What the learning steps of one decision add up to."""

    updates: int = 0
    rewards: list[float] = field(default_factory=list)


def read_books(url: str) -> Books:
    """Read all of it in one snapshot."""
    if url.startswith("sqlite:///"):
        connection: Any = pysqlite3.dbapi2.connect(url.removeprefix("sqlite:///"), timeout=60)
    else:
        connection = psycopg.connect(url)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    try:
        cursor = connection.cursor()
        if url.startswith("sqlite:///"):
            cursor.execute("BEGIN")
        return Books(*(_rows(cursor, name) for name in _TABLES))
    finally:
        connection.rollback()
        connection.close()


def _rows(cursor: Any, table: str) -> list[Row]:
    cursor.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def reconcile(books: Books) -> list[str]:
    """Every way in which the books contradict themselves; of sound books there is none."""
    return [*_cells_wrong(books), *_decisions_wrong(books), *_episodes_wrong(books)]


def _cells_wrong(books: Books) -> Iterator[str]:
    folded: defaultdict[CellKey, _Folded] = defaultdict(_Folded)
    for row in books.opening_cells:
        folded[_cell(row)] = _Folded(row["q"], row["visits"], row["updates"], row["borrowed"])
    for row in books.decisions:
        folded[_cell(row)].visits += 1
        if row["status"] == "void":
            folded[row["tenant"], row["void_version"], row["void_state"], row["action"]].visits -= 1
    alphas = _alphas(books)
    for row in sorted(books.learning_steps, key=lambda row: (*_cell(row), row["number"])):
        yield from _fold(folded[_cell(row)], row, alphas[row["tenant"], row["version"]])
    stored = {_cell(row): row for row in books.cells}
    for key in sorted(folded.keys() | stored.keys()):
        row = stored.get(key, {})
        for name in ("q", "visits", "updates", "borrowed", "steps"):
            # Exact: the same operations on the same numbers in the same order.
            if row.get(name) != getattr(folded[key], name):
                yield f"cell {key}: {name} is {row.get(name)}, its history says {getattr(folded[key], name)}"


def _fold(cell: _Folded, step: Row, alpha: float | None) -> Iterator[str]:
    """Apply a learning step to a cell; yield what is wrong with the step."""
    what = f"step {step['number']} of {_cell(step)}"
    cell.steps += 1
    if step["number"] != cell.steps:
        yield f"{what}: expected number {cell.steps}"
    if step["kind"] == "update":
        cell.updates += 1
        size = alpha if alpha is not None else 1.0 / (cell.borrowed + cell.updates)
        target = step["reward"] + step["discount"] * step["bootstrap"]
        if (step["step_size"], step["target"]) != (size, target):
            yield f"{what}: size {step['step_size']}, target {step['target']}; expected {size}, {target}"
        cell.q = cell.q + size * (target - cell.q)
    else:
        size = alpha if alpha is not None else 1.0 / max(1.0, cell.borrowed + cell.updates)
        if step["step_size"] != size:
            yield f"{what}: size {step['step_size']}, expected {size}"
        cell.q = cell.q + size * step["reward"]


def _decisions_wrong(books: Books) -> Iterator[str]:
    """Each reward that counts is in exactly one learning step of its decision, and no step is there twice."""
    told: defaultdict[tuple[str, str], _Told] = defaultdict(_Told)
    for step in books.learning_steps:
        entry = told[step["tenant"], step["decision_id"]]
        entry.updates += step["kind"] == "update"
        entry.rewards.append(step["reward"])
    came: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for row in books.rewards:
        came[row["tenant"], row["decision_id"]].append(row["value"])
    for key, outcome in _outcomes(books).items():
        came[key].append(outcome)
    decisions = {(row["tenant"], row["decision_id"]): row["status"] for row in books.decisions}
    for key in sorted(told.keys() | came.keys() | decisions.keys()):
        status = decisions.get(key)
        if told[key].updates != (status == "learned"):
            yield f"decision {key} is {status} and was learned {told[key].updates} times"
        elif status == "learned" and abs(fsum(told[key].rewards) - fsum(came[key])) > 1e-12:
            yield f"decision {key}: rewards {came[key]}, learned {told[key].rewards}"
        elif status == "void" and came[key]:
            yield f"decision {key} is void and has rewards {came[key]}"


def _outcomes(books: Books) -> dict[tuple[str, str], float]:
    """The outcome of each closed episode, by the decision that it belongs to: the last that is not void."""
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(books.decisions, key=lambda row: row["step"] or 0):
        if row["episode"] is not None and row["status"] != "void":
            last[row["tenant"], row["episode"]] = row
    return {
        (row["tenant"], last[row["tenant"], row["episode"]]["decision_id"]): row["outcome"]
        for row in books.episodes
        if row["outcome"] is not None and (row["tenant"], row["episode"]) in last
    }


def _episodes_wrong(books: Books) -> Iterator[str]:
    steps: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    still_open: defaultdict[tuple[str, str], int] = defaultdict(int)
    for row in books.decisions:
        if row["episode"] is not None:
            steps[row["tenant"], row["episode"]].append(row["step"])
            still_open[row["tenant"], row["episode"]] += row["status"] == "open"
    for row in books.episodes:
        key = (row["tenant"], row["episode"])
        if sorted(steps[key]) != list(range(row["steps"])):
            yield f"episode {key}: {row['steps']} steps, decisions at {sorted(steps[key])}"
        if row["status"] == "closed" and still_open[key]:
            yield f"episode {key} is closed with {still_open[key]} open decisions"
    for key in sorted(steps.keys() - {(row["tenant"], row["episode"]) for row in books.episodes}):
        yield f"episode {key} has decisions and no row"


def losses(books: Books, acknowledged: Iterable[Answer]) -> list[str]:
    """Everything that a client was told and that the books do not say."""
    tables: dict[str, Mapping[tuple[str, str], Row]] = {
        verb: {(row["tenant"], row[key]): row for row in getattr(books, table)}
        for verb, (table, key) in _TOLD.items()
    }
    found = []
    for answer in acknowledged:
        verb = answer["verb"]
        key = (answer["tenant"], answer[_TOLD[verb][1]])
        row = tables[verb].get(key)
        if row is None:
            found.append(f"{verb} {key} was acknowledged and is not there")
        else:
            found += [
                f"{verb} {key}: acknowledged with {name} {value!r}, there is {row[name]!r}"
                for name, value in answer.items()
                if name != "verb" and row[name] != value
            ]
    return found


def _cell(row: Row) -> CellKey:
    return row["tenant"], row["version"], row["state"], row["action"]


def _alphas(books: Books) -> dict[tuple[str, int], float | None]:
    """The step size of each version; None for 1/n. Priors would open cells here, so there must be none."""
    alphas: dict[tuple[str, int], float | None] = {}
    for row in books.policy_versions:
        settings = json.loads(row["settings"])
        assert not settings["priors"]
        alpha = settings["learning"]["alpha"]
        alphas[row["tenant"], row["version"]] = None if alpha == "1/n" else float(alpha)
    return alphas
