"""What a change of catalogue or states does: which cell of which version each cell of the new one comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from steersman.domain.answers import Fate, Group
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import Cell, PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.domain.states import StateSpace
from steersman.usecases.lineage import trace_lineage

__all__ = ["Moves", "Source", "Tally", "changed_parts", "remarks_on", "trace_moves"]

_SHOWN = 20

_Mask = NDArray[np.bool_]
_Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A version that gives cells to the new one."""

    version: PolicyVersion
    states: _Indices  # [S of this version], the index of each state in the new one, or -1
    gives: Mapping[str, _Mask]  # of action ids, [S of the new version]: which states it gives


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Where the cells of a new version come from; the active version is the first of the sources."""

    new: PolicyVersion
    sources: tuple[Source, ...]
    actions: Fate
    states: Fate
    untried: Group  # pairs of state and action without a source


def changed_parts(before: TenantSpec, after: TenantSpec) -> tuple[str, ...]:
    """Return the names of the parts of a declaration that differ, in the order of the declaration.

    `labels` when it is only those of the `actions`.
    """
    old, new = before.to_json(), after.to_json()
    parts = [name for name in new if old[name] != new[name]]
    if before.actions.ids == after.actions.ids:
        parts = ["labels" if name == "actions" else name for name in parts]
    return tuple(parts)


def remarks_on(moves: Moves, cells: Fate) -> tuple[str, ...]:
    """Return in words what to know of a change beforehand; `cells` is what becomes of cells."""
    old, new = moves.sources[0].version.settings, moves.new.settings
    held = cells.kept.count + cells.moved.count + cells.restored.count
    if old.speaks_of_the_same(new) or not held:
        return ()
    what = (
        "the cell that goes on holds a value" if held == 1 else f"the {held:,} cells that go on hold values"
    )
    before, after = (f"{each.reward_low:g} to {each.reward_high:g}" for each in (old, new))
    remark = (
        f"reward_range: {what} of rewards from {before}, which stay as they are; where rewards from {after} are of "
        "another scale, a new tenant is the better choice"
    )
    return (remark,)


def trace_moves(new: PolicyVersion, line: Sequence[PolicyVersion]) -> Moves:
    """Return the moves into `new`; `line` is the active version and its ancestors, nearest first.

    Each pair of state and action comes from the nearest version of the line that has the action id and the
    meaning of the state, whether or not that version knows anything of it.
    """
    open_pairs = _OpenPairs(new)
    size = new.states.size
    missing = np.ones(size, dtype=bool)  # states that no version looked at so far has
    sources: list[Source] = []
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for depth, version in enumerate(line):
        look = (version.states.fingerprint, version.actions.ids)
        # A version that looks like a nearer one, as after a change of settings, has nothing more to give.
        if look in seen or (depth and open_pairs.done):
            continue
        seen.add(look)
        states = _state_map(new, line[:depth], version)
        reached = np.zeros(size, dtype=bool)
        reached[states[states >= 0]] = True
        gives = open_pairs.claim(reached, version.actions)
        if gives or not depth:
            sources.append(Source(version, states, gives))
        missing &= ~reached
    return Moves(
        new,
        tuple(sources),
        actions=_fate_of_actions(new.actions, line),
        states=_fate_of_states(new.states, line[0].states, sources[0].states, unknown=missing),
        untried=Group(open_pairs.count, tuple(open_pairs.shown(new))),
    )


def _state_map(new: PolicyVersion, nearer: Sequence[PolicyVersion], version: PolicyVersion) -> _Indices:
    """Return where each state of `version` lies in `new`: where rewards of its decisions will look for it."""
    found = trace_lineage(new, [*nearer, version], version).maps[0]
    return np.arange(version.states.size, dtype=np.int64) if found is None else found


class _OpenPairs:
    """The pairs of state and action of a new version that have no source yet.

    Actions with the same history share one mask, so that a large catalogue costs no more than a small one.
    """

    def __init__(self, new: PolicyVersion) -> None:
        self._groups: list[tuple[tuple[str, ...], _Mask]] = [
            (new.actions.ids, np.ones(new.states.size, dtype=bool))
        ]

    @property
    def done(self) -> bool:
        return not self._groups

    @property
    def count(self) -> int:
        return sum(len(actions) * int(mask.sum()) for actions, mask in self._groups)

    def claim(self, reached: _Mask, actions: ActionCatalogue) -> dict[str, _Mask]:
        """Close the pairs of the `reached` states and `actions`; return of each action which states it closed."""
        groups: list[tuple[tuple[str, ...], _Mask]] = []
        won: dict[str, _Mask] = {}
        for ids, mask in self._groups:
            inside = tuple(action for action in ids if action in actions.position)
            outside = tuple(action for action in ids if action not in actions.position)
            taken, left = mask & reached, mask & ~reached
            if taken.any():
                won |= dict.fromkeys(inside, taken)
            groups += [(outside, mask)] if outside else []
            groups += [(inside, left)] if inside and left.any() else []
        self._groups = groups
        return won

    def shown(self, new: PolicyVersion) -> Iterator[str]:
        """Yield the first open pairs by their meaning."""
        pairs = ((ids, int(state)) for ids, mask in self._groups for state in np.flatnonzero(mask)[:_SHOWN])
        names = (f"{new.states.describe(state)}: {action}" for ids, state in pairs for action in ids)
        yield from islice(names, _SHOWN)


def _fate_of_actions(new: ActionCatalogue, line: Sequence[PolicyVersion]) -> Fate:
    before = line[0].actions
    known = {action for version in line for action in version.actions.ids}
    in_both = [action for action in new.ids if action in before.position]
    added = [action for action in new.ids if action not in before.position]

    def group(actions: Iterable[str]) -> Group:
        ids = tuple(actions)
        return Group(len(ids), ids)

    return Fate(
        kept=group(action for action in in_both if new.position[action] == before.position[action]),
        moved=group(action for action in in_both if new.position[action] != before.position[action]),
        new=group(action for action in added if action not in known),
        parked=group(action for action in before.ids if action not in new.position),
        restored=group(action for action in added if action in known),
    )


def _fate_of_states(new: StateSpace, old: StateSpace, moved: _Indices, *, unknown: _Mask) -> Fate:
    """Return the fate of states; `moved` is [S of old], `unknown` [S of new]: in no version of the line."""
    reached = np.zeros(new.size, dtype=bool)
    reached[moved[moved >= 0]] = True
    stays = moved == np.arange(old.size)
    return Fate(
        kept=_states(old, stays),
        moved=_states(old, (moved >= 0) & ~stays),
        new=_states(new, unknown),
        parked=_states(old, moved < 0),
        restored=_states(new, ~reached & ~unknown),
    )


def _states(space: StateSpace, mask: _Mask) -> Group:
    first = np.flatnonzero(mask)[:_SHOWN]
    return Group(int(mask.sum()), tuple(space.describe(int(state)) for state in first))


@dataclass(slots=True)
class Tally:
    """Counts the cells that move, while they stream by."""

    moves: Moves
    _counts: dict[str, int] = field(default_factory=dict)
    _shown: dict[str, list[str]] = field(default_factory=dict)

    def move(self, source: Source, cell: Cell) -> int | None:
        """Return the state of `cell` in the new version, or None when it stays behind; count it."""
        action = cell.key.action
        state = int(source.states[cell.key.state])
        gives = source.gives.get(action)
        first = source is self.moves.sources[0]
        if state < 0 or gives is None or not gives[state]:
            if first:
                self._add("parked", source.version.states, cell.key.state, action)
            return None
        new = self.moves.new
        if not first:
            fate = "restored"
        elif (
            state == cell.key.state
            and new.actions.position[action] == source.version.actions.position[action]
        ):
            fate = "kept"
        else:
            fate = "moved"
        self._add(fate, new.states, state, action)
        return state

    def _add(self, fate: str, space: StateSpace, state: int, action: str) -> None:
        self._counts[fate] = self._counts.get(fate, 0) + 1
        shown = self._shown.setdefault(fate, [])
        if len(shown) < _SHOWN:
            shown.append(f"{space.describe(state)}: {action}")

    def fate(self) -> Fate:
        """Return the fate of the cells so far."""
        groups = {fate: Group(count, tuple(self._shown[fate])) for fate, count in self._counts.items()}
        return Fate(new=self.moves.untried, **groups)
