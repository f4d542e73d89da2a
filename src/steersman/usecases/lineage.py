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

    path: tuple[
        PolicyVersion, ...
    ]  # the learning version first, the deciding one last; one when they are the same
    maps: tuple[
        NDArray[np.int64] | None, ...
    ]  # of each: [S of the deciding version] int64, -1 for none; None: same

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
        so a copy of the deciding version with a lower number, such as one frozen before, does not.
        """
        if len(self.path) > 1 and self.path[-2].number > latest_version:
            return self.resolve(state, action)
        return self.path[-1], state


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
    """Return where each state of `origin` lies in `version`: by its meaning, else by way of the version `before`."""
    if origin.states.fingerprint == version.states.fingerprint:
        return None
    direct = origin.states.remap(version.states)
    stepwise = before.states.remap(version.states)
    through = stepwise if to_before is None else np.where(to_before >= 0, stepwise[to_before], -1)
    return np.where(direct >= 0, direct, through)
