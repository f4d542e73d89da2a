"""Which rows are known: the same row twice is one row, the same id for two rows is an error."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidRowError
from steersman.teacher.columns import DIGEST_BYTES

__all__ = ["RowIndex"]

_PAIRS = 4096  # hashed together


class RowIndex:
    """The ids and fingerprints of the rows kept so far, and where each was found."""

    def __init__(self) -> None:
        """Start empty."""
        self.duplicates = 0
        self._positions: dict[str, int] = {}  # in the order of positions
        self._digests = bytearray()  # [N * 32]
        self._starts: list[int] = []  # the position of the first row of each block added
        self._blocks: list[
            tuple[str, Sequence[int] | NDArray[np.int64]]
        ] = []  # path and numbers of each block

    def __len__(self) -> int:
        """Return the number of rows kept."""
        return len(self._positions)

    @property
    def row_ids(self) -> tuple[str, ...]:
        """The ids of the rows kept, in their order: [N] str."""
        return tuple(self._positions)

    def add(
        self, path: str, numbers: NDArray[np.int64], row_ids: Sequence[str], digests: bytes
    ) -> NDArray[np.bool_] | None:
        """Take in a block of B rows; return which are new, [B] bool, or None when all are.

        `digests` are the fingerprints [B * 32], `numbers` the rows' places in the file `path`. Raises InvalidRowError
        that names both places when an id is known with another fingerprint.
        """
        known = self._positions
        start = len(known)
        self._starts.append(start)
        if len(set(row_ids)) == len(row_ids) and known.keys().isdisjoint(row_ids):
            known.update(zip(row_ids, range(start, start + len(row_ids)), strict=True))
            self._digests += digests
            self._blocks.append((path, numbers))
            return None
        fresh = np.zeros(len(row_ids), dtype=np.bool_)
        places: list[int] = []
        self._blocks.append((path, places))
        for index, row_id in enumerate(row_ids):
            digest = digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
            position = known.get(row_id)
            if position is None:
                known[row_id] = len(known)
                self._digests += digest
                places.append(int(numbers[index]))
                fresh[index] = True
            elif self._digest(position) == digest:
                self.duplicates += 1
            else:
                raise InvalidRowError(
                    f"row_id: expected one row for each id, got {canonical_json(row_id)} with other content at "
                    f"{self._place(position)}",
                    where=f"{path}:{numbers[index]}",
                )
        return fresh

    def dataset_hash(self, binding: Mapping[str, Any]) -> str:
        """Return the SHA-256 of the canonical JSON of `binding` and the sorted pairs of row id and fingerprint.

        The document is {"binding": ..., "rows": [[id, fingerprint], ...]}, so neither where the files lie nor how the
        rows are spread over them matters.
        """
        sha256 = hashlib.sha256(b'{"binding":%b,"rows":[' % canonical_json(dict(binding)).encode("ascii"))
        separator = b""
        for pairs in self._sorted_pairs():
            sha256.update(separator + canonical_json(pairs)[1:-1].encode("ascii"))
            separator = b","
        sha256.update(b"]}")
        return sha256.hexdigest()

    def _sorted_pairs(self) -> Iterator[list[tuple[str, str]]]:
        ids = iter(sorted(self._positions))
        while block := list(islice(ids, _PAIRS)):
            yield [(row_id, self._digest(self._positions[row_id]).hex()) for row_id in block]

    def _digest(self, position: int) -> bytes:
        return bytes(self._digests[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES])

    def _place(self, position: int) -> str:
        block = bisect_right(self._starts, position) - 1
        path, numbers = self._blocks[block]
        return f"{path}:{numbers[position - self._starts[block]]}"
