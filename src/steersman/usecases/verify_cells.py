"""Verifying cells: each is folded from what its version opened with, its visits and its learning steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import copysign, isfinite
from typing import Any, NamedTuple

from steersman.domain.records import LearningStep, PolicyVersion
from steersman.domain.settings import PolicySettings
from steersman.policies.arithmetic import further_step_size, one_step_target, q_update, step_size
from steersman.store.connection import Connection
from steersman.store.hot.text import Row
from steersman.store.ledger import checkpoint_stream, opening_stream, step_stream, stored_stream, visit_stream
from steersman.store.steps import step_of
from steersman.usecases.findings import Findings, Mismatch, seal_mismatches, unreadable
from steersman.usecases.merging import merged

__all__ = ["Fold", "cell_mismatches", "fold_step", "opening_fold", "verify_cells"]

_OPENING, _CHECKPOINT, _VISITS, _STORED, _STEPS = range(5)


@dataclass(slots=True)
class Fold:
    """A cell as the logbook rebuilds it."""

    q: float
    visits: int
    updates: int
    borrowed: float
    steps: int


def opening_fold(settings: PolicySettings | None, action: str) -> Fold:
    """Return a cell that nothing is recorded of: at the prior of its action, or 0."""
    prior = settings.prior_of.get(action) if settings is not None else None
    return Fold(0.0, 0, 0, 0.0, 0) if prior is None else Fold(prior.q, 0, 0, prior.weight, 0)


def fold_step(
    fold: Fold, step: LearningStep, alpha: float | None, discounts: frozenset[float]
) -> Iterator[Mismatch]:
    """Apply one learning step to `fold` and yield what the step says otherwise than the rules do.

    `alpha` is the step size of the cell's version, None for 1/n; `discounts` are those that it may have used.
    q moves as logged: q += step_size * (target - q) for an update, q += step_size * reward for a further reward.
    """
    fold.steps += 1
    if step.number != fold.steps:
        yield "number", step.number, fold.steps
        fold.steps = step.number
    if step.kind == "update":
        fold.updates += 1
        target = one_step_target(step.reward, step.discount, step.bootstrap)
        size = step_size(alpha, fold.borrowed, fold.updates)
        if step.discount not in discounts:
            yield "discount", step.discount, sorted(discounts)
        fold.q = q_update(fold.q, step.target, step.step_size)
    else:
        target = step.reward
        size = further_step_size(alpha, fold.borrowed, fold.updates)
        if (step.discount, step.bootstrap) != (0.0, 0.0):
            yield "discount", step.discount, 0.0
        fold.q += step.step_size * step.reward
    if step.kind not in {"update", "further"}:
        yield "kind", step.kind, None
    if step.target != target:
        yield "target", step.target, target
    if step.step_size != size:
        yield "step_size", step.step_size, size


def cell_mismatches(fold: Fold | None, stored: Row | None) -> Iterator[Mismatch]:
    """Yield how a stored cell (its row) differs from the one that was rebuilt; either may be missing.

    Numbers must be the same to the last bit: a cell has no seal.
    """
    if stored is None or fold is None:
        yield "row", None if stored is None else "present", None if fold is None else "present"
        return
    rebuilt = (fold.q, fold.visits, fold.updates, fold.borrowed, fold.steps)
    names = ("q", "visits", "updates", "borrowed", "steps")
    for name, there, here in zip(names, stored[4:], rebuilt, strict=True):
        if there != here or copysign(1.0, there) != copysign(1.0, here):
            yield name, there, here
    if fold.visits < 0:
        yield "visits", fold.visits, "at least 0"


def verify_cells(
    connection: Connection,
    owner: str,
    versions: dict[int, PolicyVersion],
    found: Findings,
    tick: Callable[[], None],
) -> None:
    """Fold every cell of a tenant or base and compare it with the stored one; check its steps on the way."""
    # A step is taken with the discount of the version that was active, which is as new as the cell's or newer.
    discounts = {
        number: frozenset(v.settings.gamma for v in versions.values() if v.number >= number)
        for number in versions
    }
    streams = [
        (opening_stream(connection, owner), _cell_key),
        (checkpoint_stream(connection, owner), _cell_key),
        (visit_stream(connection, owner), _visit_key),
        (stored_stream(connection, owner), _cell_key),
        (step_stream(connection, owner, by_decision=False), _cell_key),
    ]
    with merged(streams) as groups:
        for key, items in groups:
            version = versions.get(key[0])
            found.add(owner, "cell", "", _place_mismatches(key, version), cell=key)
            rules = _Rules(version.settings, discounts[key[0]]) if version is not None else None
            for subject, record, mismatches in _cell_findings(key[2], items, rules, tick):
                found.add(owner, subject, record, mismatches, cell=key)


class _Rules(NamedTuple):
    settings: PolicySettings
    discounts: frozenset[float]


def _cell_findings(
    action: str, items: Iterable[tuple[int, Row]], rules: _Rules | None, tick: Callable[[], None]
) -> Iterator[tuple[str, Any, Iterable[Mismatch]]]:
    """Fold one cell from its rows; yield (subject, record, what differs). Without rules, nothing is said of steps."""
    fold = opening_fold(rules.settings if rules is not None else None, action)
    stored: Row | None = None
    history = False
    for stream, row in items:
        history = history or stream != _STORED
        if stream == _VISITS:
            fold.visits += row[3] - row[4]
        elif stream == _OPENING:
            bad = unreadable("opening_cells", row) or list(_impossible(row))
            yield "cell", "", bad
            if not bad:
                fold.q, fold.visits, fold.updates, fold.borrowed = row[4:]
        elif stream == _CHECKPOINT:
            bad = unreadable("cell_checkpoints", row)
            yield "checkpoint", "", bad or seal_mismatches(row[:-1], row[-1])
            if not bad:
                fold = Fold(*row[4:-1])
        elif stream == _STORED:
            tick()
            stored = row
        else:
            tick()
            yield "step", row[4], _step_mismatches(fold, row, rules)
    bad = unreadable("cells", stored) if stored is not None else []
    yield "cell", "", bad or cell_mismatches(fold if history else None, stored)


def _step_mismatches(fold: Fold, row: Row, rules: _Rules | None) -> list[Mismatch]:
    bad = unreadable("learning_steps", row)
    if bad:
        return bad
    problems = seal_mismatches(row[:-1], row[-1])
    if rules is not None:
        problems += fold_step(fold, step_of(row), rules.settings.alpha, rules.discounts)
    return problems


def _place_mismatches(key: tuple[Any, ...], version: PolicyVersion | None) -> Iterator[Mismatch]:
    number, state, action = key
    if version is None:
        yield "version", number, None
        return
    if not (isinstance(state, int) and 0 <= state < version.states.size):
        yield "state", state, f"0 to {version.states.size - 1}"
    if action not in version.actions.position:
        yield "action", action, list(version.actions.ids)


def _impossible(opening: Row) -> Iterator[Mismatch]:
    """Yield the numbers of an opening cell that no evidence can have."""
    for name, number in zip(("visits", "updates", "borrowed"), opening[5:], strict=True):
        if not (number >= 0 and isfinite(number)):
            yield name, number, "at least 0"


def _cell_key(row: Row) -> tuple[Any, ...]:
    return row[1:4]


def _visit_key(row: Row) -> tuple[Any, ...]:
    return row[:3]
