"""Many cells at once, as columns: for merging, comparing and importing whole tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import Cell, CellKey

__all__ = ["CELL", "add_tables", "pack_cells", "unpack_cells"]

CELL = np.dtype(
    [
        ("key", np.int64),
        ("q", np.float64),
        ("visits", np.int64),
        ("updates", np.int64),
        ("borrowed", np.float64),
    ]
)
"""One cell; its key is state * A + position in a catalogue of A actions."""


def pack_cells(cells: Iterable[Cell], actions: ActionCatalogue) -> NDArray[Any]:
    """Return `cells` as a table, [n] of CELL with ascending keys; every action is in `actions`."""
    size, position = len(actions), actions.position
    rows = (
        (cell.key.state * size + position[cell.key.action], cell.q, cell.visits, cell.updates, cell.borrowed)
        for cell in cells
    )
    table = np.fromiter(rows, dtype=CELL)
    return table[np.argsort(table["key"], kind="stable")]


def unpack_cells(table: NDArray[Any], actions: ActionCatalogue) -> Iterator[Cell]:
    """Yield the cells of a table, [n] of CELL, in its order; their version is set when they are opened."""
    ids = actions.ids
    for start in range(0, len(table), 10_000):
        for key, q, visits, updates, borrowed in table[start : start + 10_000].tolist():
            state, position = divmod(key, len(ids))
            yield Cell(CellKey(0, state, ids[position]), q, visits, updates, borrowed)


def add_tables(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return the table of all keys of two tables, [n] and [m] of CELL, with the sums of their four numbers."""
    both = np.concatenate([first, second])
    keys, place = np.unique(both["key"], return_inverse=True)
    total = np.zeros(len(keys), dtype=CELL)
    total["key"] = keys
    for name in ("q", "visits", "updates", "borrowed"):
        np.add.at(total[name], place, both[name])
    return total
