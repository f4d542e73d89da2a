"""Merging ordered streams of rows, so that all that belongs to one thing is looked at together."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from steersman.store.ledger import position_of, value_at

__all__ = ["Group", "Stream", "merged"]

Group: TypeAlias = tuple[tuple[Any, ...], Iterator[tuple[int, Any]]]
"""A key, and the rows that have it, each with the number of its stream."""

Stream: TypeAlias = tuple[Generator[Any], Callable[[Any], tuple[Any, ...]]]
"""Rows in ascending order of a key, and what returns the key of a row."""


@contextmanager
def merged(streams: Sequence[Stream]) -> Iterator[Iterator[Group]]:
    """Give an iterator over (key, its rows), each row with the number of its stream, the streams in turn.

    The rows of a key must be consumed before the next key; nothing but one row of each stream is held. Whatever
    happens to the one who iterates, the streams are closed, and with them the cursors that they read from.
    """
    tagged = [_tagged(number, *stream) for number, stream in enumerate(streams)]
    groups = groupby(heapq.merge(*tagged, key=itemgetter(0)), key=itemgetter(0))
    try:
        yield ((tuple(map(value_at, key)), map(itemgetter(1, 2), items)) for key, items in groups)
    finally:
        for rows, _ in streams:
            rows.close()


def _tagged(
    number: int, rows: Iterator[Any], key_of: Callable[[Any], tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], int, Any]]:
    for row in rows:
        yield tuple([position_of(part) for part in key_of(row)]), number, row
