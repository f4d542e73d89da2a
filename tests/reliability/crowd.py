"""Processes that race: what each does, and what it brings back."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection as Pipe
from random import Random
from typing import Any, NamedTuple

from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.usecases.migrate import migrate
from tests.reliability.children import tell_parent
from tests.reliability.clients import arm

__all__ = [
    "CROWD",
    "HOT",
    "OTHERS",
    "PAIRS",
    "SHARED",
    "TENANT",
    "Note",
    "contend",
    "migrate_and_die",
    "migrate_in_turn",
]

TENANT = "crowd"
HOT = (0, "hold")
"""The cell that half of all decisions are made in."""
OTHERS = 16
"""Other states, which take the other half."""
CROWD = 8
PAIRS = 500
SHARED = 20
"""Pairs more that every process makes under the same ids."""


class Note(NamedTuple):
    """What one process was told of one decision, and what it rewarded it with."""

    decision_id: str
    state: int
    action: str
    value: float


def contend(url: str, name: str, seed: int, pipe: Pipe) -> None:
    """Make a decision and its reward five hundred times; send the notes, and the seconds that the longest pair took.

    Every process asks for the states in the same order, so that the first decision of each is raced for.
    """
    random = Random(f"{seed} {name}")
    notes: list[Note] = []
    longest = 0.0
    with Steersman(Database.open(url)) as library:
        tell_parent(pipe, "ready")
        pipe.recv_bytes()
        for i in range(PAIRS):
            begun = time.monotonic()
            hot = i % 2 == 0
            state, feasible = (HOT[0], [HOT[1]]) if hot else (1 + i // 2 % OTHERS, None)
            notes.append(_pair(library, f"{name}.{i}", state, random.random(), feasible))
            longest = max(longest, time.monotonic() - begun)
            if i % 10 == 3:
                _again(library, notes[-1])
            if i % (PAIRS // SHARED) == 0:
                shared = i // (PAIRS // SHARED)
                notes.append(_pair(library, f"shared.{shared}", HOT[0], shared / SHARED, [HOT[1]]))
    tell_parent(pipe, [notes, longest])


def _pair(library: Steersman, decision_id: str, state: int, value: float, feasible: list[str] | None) -> Note:
    decision = library.decide(TENANT, state, decision_id=decision_id, feasible=feasible)
    library.reward(TENANT, decision_id, value)
    return Note(decision_id, decision.state, decision.action, value)


def _again(library: Steersman, note: Note) -> None:
    first = library.reward(TENANT, note.decision_id, note.value)
    assert (first.decision_id, first.value, first.effect) == (note.decision_id, note.value, "learned")


def migrate_in_turn(url: str, tenant: str, declarations: list[Any], pipe: Pipe) -> None:
    """Make each migration at the word and tell the version that it made, None when nothing was left to do."""
    with Steersman(Database.open(url)) as library:
        tell_parent(pipe, "ready")
        for declaration in declarations:
            pipe.recv_bytes()
            tell_parent(pipe, migrate(library.database, tenant, declaration).version)


def migrate_and_die(url: str, tenant: str, declaration: dict[str, Any], point: str) -> None:
    """Make a migration and be killed at a point of its transaction."""
    with Steersman(Database.open(url)) as library:
        arm(library.database, point, 1)
        migrate(library.database, tenant, declaration)
