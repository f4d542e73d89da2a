"""Clients that die: processes that make the calls of a plan, tell what they were told, and are killed."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import event

from steersman.domain.records import PolicyVersion
from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.store.transactions import HotTransaction
from tests.reliability.books import Answer
from tests.reliability.children import PROCESSES
from tests.reliability.plans import Call, answer_of, make_plan, perform, renamed

__all__ = ["POINTS", "Client", "Death", "Plan", "arm"]

T = TypeVar("T")

POINTS = ("before BEGIN", "after write", "before COMMIT", "after COMMIT")
"""Where in a transaction a client can be told to die."""

_WRITES = (
    "insert_decisions",
    "insert_rewards",
    "insert_steps",
    "mark_decisions",
    "write_cells",
    "close_episodes",
)
_PATIENCE = 120.0  # seconds, for a process to end


@dataclass(frozen=True, slots=True)
class Plan:
    """What `make_plan` needs to make a plan again in another process."""

    client: str
    seed: int
    calls: int

    def make(self) -> list[Call]:
        """The calls."""
        return make_plan(self.client, self.seed, self.calls)


@dataclass(frozen=True, slots=True)
class Death:
    """How a life ends: at a named point, passed for the n-th time; or when so much was heard, and a moment later."""

    point: str | None = None
    passes: int = 1
    heard: int = 1
    moment: float = 0.0  # seconds


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(
    database: Database,
    point: str,
    passes: int,
    end: Callable[[], None] = _die,
    *,
    views: Iterable[Database] = (),
) -> None:
    """Call `end` when a transaction of `database` passes `point` for the `passes`-th time.

    Those of `views`, which were made of it before, count as well; views that are made later do so by themselves.

    The points are reached by wrapping what is there, from outside; nothing in the library knows of them.
    """
    left = passes

    def pass_by(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            end()

    wrapped: list[Any] = [database, *views]
    dialect: Any = database.engine.dialect
    if point == "before BEGIN":
        event.listen(database.engine, "begin", pass_by, insert=True)
        for one in wrapped:
            one.begin_hot = _preceded_by(pass_by, one.begin_hot)
    elif point == "before COMMIT":
        event.listen(database.engine, "commit", pass_by)
        for one in wrapped:
            one.commit_hot = _preceded_by(pass_by, one.commit_hot)
    elif point == "after COMMIT":
        dialect.do_commit = _followed_by(pass_by, dialect.do_commit)
        for one in wrapped:
            one.commit_hot = _followed_by(pass_by, one.commit_hot)
    elif point == "after write":
        for name in _WRITES:
            setattr(database.hot, name, _followed_by(pass_by, getattr(database.hot, name)))
    else:
        raise ValueError(f"expected one of {POINTS}, got {point!r}")


def _preceded_by(before: Callable[[], None], function: Callable[..., T]) -> Callable[..., T]:
    def both(*arguments: Any) -> T:
        before()
        return function(*arguments)

    return both


def _followed_by(after: Callable[[], None], function: Callable[..., T]) -> Callable[..., T]:
    def both(*arguments: Any) -> T:
        result = function(*arguments)
        after()
        return result

    return both


class _HastyDatabase(Database):
    """A planted defect: what a transaction will answer is told before it commits."""

    tell: Callable[[object], None]

    def run(self, work: Callable[[sqlalchemy.Connection], T]) -> T:
        return super().run(self._telling(work))

    def run_hot(self, work: Callable[[HotTransaction], T], *, tenants: Iterable[str]) -> T:
        return super().run_hot(self._telling(work), tenants=tenants)

    def _telling(self, work: Callable[[Any], T]) -> Callable[[Any], T]:
        def told(transaction: Any) -> T:
            result = work(transaction)
            self.tell(result)
            return result

        return told


@dataclass(frozen=True, slots=True)
class _Life:
    """The part of a plan that one process makes."""

    url: str
    plan: Plan
    start: int
    death: Death
    defect: str | None


def _live(life: _Life, pipe: Pipe) -> None:
    """Make the calls of a life and send each answer up the pipe."""
    database = (_HastyDatabase if life.defect == "hasty" else Database).open(life.url)
    library = Steersman(database)
    calls = life.plan.make()
    try:
        if life.death.point is not None:
            arm(database, life.death.point, life.death.passes)
        for index in range(life.start, len(calls)):
            call = calls[index]
            if life.defect == "careless" and index == life.start > 0:
                call = renamed(call)
            if isinstance(database, _HastyDatabase):
                database.tell = partial(_tell_early, pipe, index, call.verb)
                perform(library, call)
            else:
                _tell(pipe, index, perform(library, call))
    except Exception:
        _tell(pipe, -1, traceback.format_exc())
        raise


def _tell(pipe: Pipe, index: int, content: object) -> None:
    # A message of this size reaches a pipe whole or not at all, also from a process that dies.
    pipe.send_bytes(json.dumps([index, content]).encode())


def _tell_early(pipe: Pipe, index: int, verb: str, result: object) -> None:
    """Send what a transaction, not committed yet, is about to answer; a decide may have to start a tenant first."""
    answers, unstarted = result if isinstance(result, tuple) else (result, ())
    if unstarted or isinstance(answers, PolicyVersion):
        return
    items = answers if isinstance(answers, list) else [answers]
    _tell(pipe, index, [answer_of(verb, item) for item in items])


class Client:
    """One client and all that it was told, over as many lives as its plan takes."""

    def __init__(self, url: str, plan: Plan, *, defect: str | None = None) -> None:
        """Take the plan; `defect` is `hasty` (tells before the commit) or `careless` (retries under other ids)."""
        self.url = url
        self.plan = plan
        self.defect = defect
        self.told: list[list[Answer]] = []  # by call

    @property
    def acknowledged(self) -> list[Answer]:
        """Every answer so far, in the order of the calls."""
        return [answer for answers in self.told for answer in answers]

    def live(self, death: Death | None = None) -> bool:
        """Go on with the plan where it was left, in a new process; return whether that was killed.

        A call whose answer was not heard is made again, under the same ids.
        """
        death = death or Death(heard=0)
        hearing, telling = PROCESSES.Pipe(duplex=False)
        life = _Life(self.url, self.plan, len(self.told), death, self.defect)
        process = PROCESSES.Process(target=_live, args=(life, telling), daemon=True)
        process.start()
        telling.close()
        heard = 0
        with hearing, suppress(EOFError):
            while True:
                index, answers = json.loads(hearing.recv_bytes())
                if index != len(self.told):
                    raise AssertionError(
                        f"expected the answer to call {len(self.told)}, got {index}: {answers}"
                    )
                self.told.append(answers)
                heard += 1
                if death.point is None and heard == death.heard:
                    time.sleep(death.moment)
                    process.kill()
        process.join(_PATIENCE)
        if process.exitcode not in (0, -signal.SIGKILL):
            raise AssertionError(f"expected an end in order or by SIGKILL, got {process.exitcode}")
        return process.exitcode != 0
