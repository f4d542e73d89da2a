"""The versions of one owner as a tree: where a state of one version lies in another that descends from it."""

from __future__ import annotations

from collections.abc import Mapping

from steersman.domain.records import PolicyVersion
from steersman.usecases.lineage import Lineage, trace_lineage

__all__ = ["Ancestry"]


class Ancestry:
    """The versions of one owner by number, and the lineages between them, traced once each."""

    def __init__(self, versions: Mapping[int, PolicyVersion]) -> None:
        """Take the versions by number."""
        self.versions = versions
        self._lineages: dict[tuple[int, int], Lineage | None] = {}

    def place(self, deciding: int, state: int, *, within: int) -> int | None:
        """Return the index that `state` of version `deciding` has in version `within`.

        None when it has no place there, or when `within` is neither that version nor descends from it.
        """
        if deciding == within:
            return state
        lineage = self._lineage(deciding, within)
        if lineage is None:
            return None
        states = lineage.maps[0]
        if states is None:
            return state
        return int(states[state]) if 0 <= state < len(states) and states[state] >= 0 else None

    def _lineage(self, deciding: int, within: int) -> Lineage | None:
        key = (deciding, within)
        if key not in self._lineages:
            self._lineages[key] = self._traced(deciding, within)
        return self._lineages[key]

    def _traced(self, deciding: int, within: int) -> Lineage | None:
        line: list[PolicyVersion] = []
        version = self.versions.get(within)
        if version is None:
            return None
        # A parent is older than its child; a number that contradicts that would lead in a circle.
        while version.number != deciding:
            parent = self.versions.get(version.parent) if version.parent is not None else None
            if parent is None or parent.number >= version.number:
                return None
            line.append(parent)
            version = parent
        return trace_lineage(self.versions[within], line, version)
