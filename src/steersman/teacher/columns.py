"""Rows as columns: what a fit needs of many rows, without an object for each."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from steersman.teacher.profiles import RowProfile
from steersman.teacher.rows import CheckedRow

__all__ = ["BLOCK_ROWS", "DIGEST_BYTES", "ColumnBuilder", "RowColumns"]

BLOCK_ROWS = 4096
"""How many rows of a file are handled together."""
DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of N rows of one file, in its order."""

    row_ids: list[str]  # [N]
    scene_ids: list[str]  # [N]
    numbers: NDArray[np.int64]  # [N], of lines or of rows of a Parquet file, from 1
    digests: bytes  # [N * 32], the rows' fingerprints
    overlays: tuple[str, ...]  # canonical JSON of the bindings that rows declare
    overlay_index: NDArray[np.int32]  # [N], into `overlays`
    features: NDArray[np.float32]  # [N, D], NaN where a nullable one is missing
    feasible: NDArray[np.bool_]  # [N, A]
    outcomes: NDArray[np.float64]  # [N, 3, A]: losses, advantages, costs; NaN where not feasible

    def __len__(self) -> int:
        """Return the number of rows, N."""
        return len(self.row_ids)


class ColumnBuilder:
    """Collects checked rows until they are taken as columns."""

    def __init__(self, profile: RowProfile) -> None:
        """Start empty, for rows of `profile`."""
        self._widths = (len(profile.features), len(profile.catalogue))
        self._pack_features = struct.Struct(f"={self._widths[0]}f").pack
        self._pack_outcomes = struct.Struct(f"={3 * self._widths[1]}d").pack
        self._clear()

    def __len__(self) -> int:
        """Return the number of rows collected."""
        return len(self._row_ids)

    def add(self, number: int, row: CheckedRow) -> None:
        """Add `row`, found at line `number`."""
        features, outcomes = row.features, (*row.losses, *row.advantages, *row.costs)
        if None in features:
            features = [nan if value is None else value for value in features]
        if False in row.feasible_mask:
            outcomes = tuple([nan if value is None else value for value in outcomes])
        self._features += self._pack_features(*features)
        self._outcomes += self._pack_outcomes(*outcomes)
        self._feasible += bytes(row.feasible_mask)
        self._digests += row.digest
        self._numbers.append(number)
        self._row_ids.append(row.row_id)
        self._scene_ids.append(row.scene_id)
        overlay = row.provenance.overlay_text
        self._overlay_index.append(self._overlays.setdefault(overlay, len(self._overlays)))

    def take(self) -> RowColumns:
        """Return what was collected, and start empty again."""
        features, actions = self._widths
        columns = RowColumns(
            row_ids=self._row_ids,
            scene_ids=self._scene_ids,
            numbers=np.array(self._numbers, dtype=np.int64),
            digests=bytes(self._digests),
            overlays=tuple(self._overlays),
            overlay_index=np.array(self._overlay_index, dtype=np.int32),
            features=np.frombuffer(self._features, np.float32).reshape(-1, features),
            feasible=np.frombuffer(self._feasible, np.bool_).reshape(-1, actions),
            outcomes=np.frombuffer(self._outcomes, np.float64).reshape(-1, 3, actions),
        )
        self._clear()
        return columns

    def _clear(self) -> None:
        self._row_ids: list[str] = []
        self._scene_ids: list[str] = []
        self._numbers: list[int] = []
        self._overlay_index: list[int] = []
        self._overlays: dict[str, int] = {}
        self._features, self._outcomes = bytearray(), bytearray()
        self._feasible, self._digests = bytearray(), bytearray()
