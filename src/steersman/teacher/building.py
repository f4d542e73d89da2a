"""Data sets in the making: blocks of columns come in, duplicates stay out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.teacher.binding import BindingCheck, CollectionMetadata
from steersman.teacher.columns import RowColumns
from steersman.teacher.index import RowIndex
from steersman.teacher.profiles import RowProfile

__all__ = ["DatasetBuilder", "GrowingArray", "SceneCodes"]

_GROWTH = 1.25


class GrowingArray:
    """An array to whose first axis rows are added; it grows in place, so that it is never there twice."""

    def __init__(self, shape: tuple[int, ...], dtype: type[Any]) -> None:
        """Start with no rows, each of `shape`."""
        self._array: NDArray[Any] = np.empty((0, *shape), dtype=dtype)
        self._size = 0

    def add(self, rows: NDArray[Any]) -> None:
        """Add `rows`, [B, *shape]."""
        size = self._size + len(rows)
        if size > len(self._array):
            self._resize(max(size, int(_GROWTH * len(self._array))))
        self._array[self._size : size] = rows
        self._size = size

    def take(self) -> NDArray[Any]:
        """Return the rows, [N, *shape]; nothing can be added after."""
        self._resize(self._size)
        return self._array

    def _resize(self, rows: int) -> None:
        # The array is this object's alone, which NumPy cannot tell.
        self._array.resize((rows, *self._array.shape[1:]), refcheck=False)


class SceneCodes:
    """Numbers scenes in the order in which they come."""

    def __init__(self) -> None:
        """Start without scenes."""
        self._codes: dict[str, int] = {}
        self._index = GrowingArray((), np.int32)

    def add(self, scene_ids: Iterable[str]) -> None:
        """Add the scenes of further rows."""
        codes = self._codes
        self._index.add(
            np.array([codes.setdefault(scene, len(codes)) for scene in scene_ids], dtype=np.int32)
        )

    def take(self) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """Return the scenes, sorted, and each row's index into them: [S] str, [N] int32."""
        scenes = sorted(self._codes)
        ranks = np.empty(len(scenes), dtype=np.int32)
        ranks[[self._codes[scene] for scene in scenes]] = np.arange(len(scenes), dtype=np.int32)
        return tuple(scenes), ranks[self._index.take()]


class DatasetBuilder:
    """Joins blocks of columns into those of a data set."""

    def __init__(self, profile: RowProfile) -> None:
        """Start empty, for rows of `profile`."""
        actions = len(profile.catalogue)
        self.index = RowIndex()
        self.bindings = BindingCheck(profile)
        self.scenes = SceneCodes()
        self.features = GrowingArray((len(profile.features),), np.float32)
        self.feasible = GrowingArray((actions,), np.bool_)
        self.losses, self.advantages, self.costs = (GrowingArray((actions,), np.float64) for _ in range(3))

    def check_bindings(self, path: str, metadata: CollectionMetadata, columns: RowColumns) -> None:
        """Raise InvalidRowError unless the rows of the file `path` are bound as those before."""
        for code, overlay in enumerate(columns.overlays):
            first = columns.numbers[np.argmax(columns.overlay_index == code)]
            self.bindings.check_overlay(metadata, overlay, f"{path}:{first}")

    def add(self, path: str, columns: RowColumns) -> None:
        """Add the rows of the file `path` that are not known yet; raise InvalidRowError where an id is taken."""
        fresh = self.index.add(path, columns.numbers, columns.row_ids, columns.digests)
        chosen = slice(None) if fresh is None else fresh
        self.scenes.add(
            columns.scene_ids
            if fresh is None
            else [s for s, new in zip(columns.scene_ids, fresh, strict=True) if new]
        )
        self.features.add(columns.features[chosen])
        self.feasible.add(columns.feasible[chosen])
        for position, outcome in enumerate((self.losses, self.advantages, self.costs)):
            outcome.add(columns.outcomes[chosen, position])
