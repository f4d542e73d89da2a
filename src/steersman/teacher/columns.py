"""Rows as columns: what a fit needs of many rows, without an object for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steersman.teacher.profiles import RowProfile
from steersman.teacher.rows import NumberedRow

__all__ = ["BLOCK_ROWS", "DIGEST_BYTES", "ColumnBuilder", "RowColumns"]

BLOCK_ROWS = 4096
"""How many rows of a file are handled together, at least."""
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
        self._width, self._actions = len(profile.features), len(profile.catalogue)
        self._clear()

    def __len__(self) -> int:
        """Return the number of rows collected."""
        return len(self._numbers)

    def add(self, rows: Iterable[NumberedRow]) -> None:
        """Add `rows`."""
        for number, row in rows:
            fields = row.fields
            self._numbers.append(number)
            self._row_ids.append(fields.row_id)
            self._scene_ids.append(fields.scene_id)
            self._overlays.append(row.provenance.overlay_text)
            self._digests.append(row.digest)
            self._packed.append(row.numbers)
            self._feasible.append(bytes(fields.feasible_mask))

    def take(self) -> RowColumns:
        """Return what was collected, and start empty again."""
        rows, overlays = len(self), {text: code for code, text in enumerate(dict.fromkeys(self._overlays))}
        values = np.frombuffer(b"".join(self._packed)).reshape(rows, self._width + 3 * self._actions)
        columns = RowColumns(
            row_ids=self._row_ids,
            scene_ids=self._scene_ids,
            numbers=np.array(self._numbers, dtype=np.int64),
            digests=b"".join(self._digests),
            overlays=tuple(overlays),
            overlay_index=np.array([overlays[text] for text in self._overlays], dtype=np.int32),
            features=values[:, : self._width].astype(np.float32),
            feasible=np.frombuffer(b"".join(self._feasible), np.bool_).reshape(rows, self._actions),
            outcomes=values[:, self._width :].reshape(rows, 3, self._actions),
        )
        self._clear()
        return columns

    def _clear(self) -> None:
        self._numbers: list[int] = []
        self._row_ids: list[str] = []
        self._scene_ids: list[str] = []
        self._overlays: list[str] = []
        self._digests: list[bytes] = []
        self._packed: list[bytes] = []
        self._feasible: list[bytes] = []
