"""Merging ordered streams of rows, so that all that belongs to one thing is looked at together."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

from steersman.store.ledger import position_of, value_at

__all__ = ["Stream", "merged"]

Stream: TypeAlias = tuple[Iterable[Any], Callable[[Any], tuple[Any, ...]]]
"""Rows in ascending order of a key, and what returns the key of a row."""


def merged(streams: Sequence[Stream]) -> Iterator[tuple[tuple[Any, ...], Iterator[tuple[int, Any]]]]:
    """Yield for each key that occurs (key, its rows), each row with the number of its stream; streams in turn.

    The rows of a key must be consumed before the next key; nothing but one row of each stream is held.
    """
    tagged = [_tagged(number, *stream) for number, stream in enumerate(streams)]
    for key, items in groupby(heapq.merge(*tagged, key=itemgetter(0)), key=itemgetter(0)):
        yield tuple(map(value_at, key)), map(itemgetter(1, 2), items)


def _tagged(
    number: int, rows: Iterable[Any], key_of: Callable[[Any], tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], int, Any]]:
    for row in rows:
        yield tuple([position_of(part) for part in key_of(row)]), number, row
