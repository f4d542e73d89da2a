"""A history is the same with and without archiving in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from steersman.domain.records import CloseRequest, DecideRequest, Decision, RewardRequest
from steersman.errors import SteersmanError
from steersman.library import Steersman
from steersman.store import tables
from steersman.store.cells import iterate_cells
from steersman.usecases.archive import archive
from steersman.usecases.verify import verify


@dataclass
class Life:
    """Plays the same calls as another one, and notes what is answered."""

    library: Steersman
    name: str
    output: Path
    answers: list[Any] = field(default_factory=list)
    done: dict[Any, Any] = field(default_factory=dict)
    """What each call was answered at first, errors aside."""

    def act(self, call: tuple[Any, ...]) -> None:
        kind, *rest = call
        name = self.name
        if kind == "decide":
            number, state, episode = rest
            request = DecideRequest(name, state, None, episode, f"d{number}", metadata={"z": number, "a": 1})
            self.note(call, self.library.decide_many([request])[0])
        elif kind == "reward":
            number, value, reward_id = rest
            given = RewardRequest(name, f"d{number}", value, reward_id)
            self.note(call, self.library.reward_many([given])[0])
        elif kind == "close":
            self.note(call, self.library.close_many([CloseRequest(name, *rest)])[0])
        elif kind == "void":
            try:
                self.note(call, self.library.void(name, f"d{rest[0]}"))
            except SteersmanError as error:
                self.note(call, error)
        elif kind == "change":
            self.library.change_tenant(name, {"actions": ["hold", "trade", *rest]})

    def note(self, call: tuple[Any, ...], answer: Any) -> None:
        if isinstance(answer, SteersmanError):
            # What was answered once is answered for ever, and the same.
            assert call not in self.done
            self.answers.append(type(answer).__name__)
            return
        lasting = replace(answer, status="open") if isinstance(answer, Decision) else answer
        assert self.done.setdefault(call, lasting) == lasting
        if isinstance(answer, Decision):
            self.answers.append(
                (answer.decision_id, answer.action, answer.propensity, answer.seen, answer.metadata)
            )
        elif hasattr(answer, "effect"):
            self.answers.append((answer.reward_id, answer.value, answer.effect))
        else:
            self.answers.append((answer.episode, answer.outcome, answer.decisions, answer.learned))

    def cells(self) -> list[Any]:
        with self.library.database.snapshot() as connection:
            newest = len(self.library.list_versions(self.name))
            return [list(iterate_cells(connection, self.name, number)) for number in range(1, newest + 1)]


NUMBERS = st.integers(0, 4)  # so few that ids meet again
EPISODES = st.sampled_from(["e", "f"])
VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
CALLS = st.one_of(
    st.tuples(st.just("decide"), NUMBERS, st.integers(0, 1), st.none() | EPISODES),
    st.tuples(st.just("decide"), NUMBERS, st.integers(0, 1), st.none()),
    st.tuples(st.just("reward"), NUMBERS, VALUES, st.sampled_from([None, "more", "other", "d1"])),
    st.tuples(st.just("reward"), NUMBERS, VALUES, st.none()),
    st.tuples(st.just("close"), EPISODES, st.none() | VALUES),
    st.tuples(st.just("void"), NUMBERS),
    st.tuples(st.just("change"), st.sampled_from(["walk", "wait"])),
    st.just(("archive",)),
)
SETTLED = NUMBERS.flatmap(
    lambda number: st.sampled_from([("reward", number, 0.5, None), ("void", number)]).map(
        lambda settling: [("decide", number, 0, None), settling, ("archive",), settling]
    )
)
"""A decision that is settled, archived, and settled again in the same way."""


@settings(max_examples=40)
@given(
    parts=st.lists(CALLS.map(lambda call: [call]) | SETTLED, min_size=5, max_size=30),
    gamma=st.sampled_from([0.0, 0.5]),
    lam=st.sampled_from([0.0, 0.5]),
)
def test_a_history_is_the_same_with_and_without_archiving(
    shared_library: Steersman,
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[Any]],
    gamma: float,
    lam: float,
) -> None:
    library = shared_library
    names = [f"company-{uuid4().hex}" for _ in range(2)]
    declared = {"actions": ["hold", "trade"], "states": 2, "learning": {"gamma": gamma, "lambda": lam}}
    for name in names:
        library.create_tenant(name, declared | {"exploration": {"epsilon": 0.5}})
    # With one secret both draw alike; what is cached is kept by the secret, so nothing may be.
    with library.database.transaction() as connection:
        there = tables.tenants
        secret = connection.execute(select(there.c.secret).where(there.c.tenant == names[0])).scalar_one()
        connection.execute(update(there).where(there.c.tenant == names[1]).values(secret=secret))
    whole, archived = (Life(library, name, tmp_path_factory.mktemp("archive")) for name in names)
    for call in chain.from_iterable(parts):
        if call[0] == "archive":
            archive(library.database, archived.name, older_than=0, output=archived.output)
            continue
        library.database._cache.clear()
        archived.act(call)
        if archived.answers and archived.answers[-1] == "ArchivedError":
            archived.answers.pop()  # what comes too late does nothing
            continue
        library.database._cache.clear()
        whole.act(call)
        assert archived.answers == whole.answers
    library.database._cache.clear()
    assert archived.cells() == whole.cells()
    assert verify(library.database, archived.name).differences == ()
    assert verify(library.database, whole.name).differences == ()
