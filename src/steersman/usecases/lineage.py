"""Which cell a decision of an older version is learned in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steersman.domain.records import PolicyVersion

__all__ = ["Lineage", "trace_lineage"]


@dataclass(frozen=True, slots=True)
class Lineage:
    """The versions from the one that learns up to the one that decided, and where a state lies in each."""

    # The learning version first, the deciding one last; one when they are the same.
    path: tuple[PolicyVersion, ...]
    # Of each: [S of the deciding version] int64, -1 for none; None when the indices are the same.
    maps: tuple[NDArray[np.int64] | None, ...]

    def resolve(self, state: int, action: str) -> tuple[PolicyVersion, int]:
        """Return the nearest version on the path that has the action and the state, and the state's index there.

        The deciding version, last on the path, always has both.
        """
        for version, states in zip(self.path, self.maps, strict=True):
            if action in version.actions.position:
                index = state if states is None else int(states[state])
                if index >= 0:
                    return version, index
        raise AssertionError("the deciding version has the state and the action of its decision")

    def visit_holder(self, state: int, action: str, *, latest_version: int) -> tuple[PolicyVersion, int]:
        """Return where the visit of a decision is counted now, to be taken back there.

        Copies made after the decision carry its visit; `latest_version` was the tenant's newest when it was made,
        so a copy of the deciding version with a lower number, such as one frozen before, does not. Nor does an
        imported version, which starts from a file; one that lacks the cell is passed by, since a later migration
        restores from behind it.
        """
        holder = self.path[-1], state
        if len(self.path) == 1 or self.path[-2].number <= latest_version:
            return holder
        passed: list[PolicyVersion] = []
        for version, states in reversed(list(zip(self.path[:-1], self.maps[:-1], strict=True))):
            index = state if states is None else int(states[state])
            if index < 0 or action not in version.actions.position:
                passed.append(version)
                continue
            # A version in between that knew this meaning by itself gave its own cell, not the one behind it.
            if version.origin == "imported" or any(_gives(older, version, index, action) for older in passed):
                break
            holder = version, index
            passed.clear()
        return holder


def _gives(older: PolicyVersion, version: PolicyVersion, state: int, action: str) -> bool:
    """Return whether `older` has the cell that (state, action) of `version` is restored from."""
    return action in older.actions.position and bool((older.states.remap(version.states) == state).any())


def trace_lineage(active: PolicyVersion, line: Sequence[PolicyVersion], deciding: PolicyVersion) -> Lineage:
    """Return the lineage of a decision of `deciding`; `line` are the ancestors of `active`, nearest first.

    The active version learns when the deciding one is itself or its ancestor; else the deciding one does.
    """
    if deciding.number == active.number:
        return Lineage((active,), (None,))
    numbers = [version.number for version in line]
    if deciding.number not in numbers:
        return Lineage((deciding,), (None,))
    path = (active, *line[: numbers.index(deciding.number) + 1])
    maps: list[NDArray[np.int64] | None] = [None]
    child = deciding
    for version in reversed(path[:-1]):
        maps.append(_state_map(deciding, child, version, maps[-1]))
        child = version
    return Lineage(path, tuple(reversed(maps)))


def _state_map(
    origin: PolicyVersion, before: PolicyVersion, version: PolicyVersion, to_before: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    """Return where each state of `origin` lies in `version`: by way of the version `before`, else by its meaning.

    Its cells moved step by step, each time by what the factors declared then.
    """
    if origin.states.fingerprint == version.states.fingerprint:
        return None
    direct = origin.states.remap(version.states)
    stepwise = before.states.remap(version.states)
    through = stepwise if to_before is None else np.where(to_before >= 0, stepwise[to_before], -1)
    return np.where(through >= 0, through, direct)
