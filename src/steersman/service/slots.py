"""How many requests that are not hot are worked on at a time: so many in all, and a part of them for one tenant."""

from __future__ import annotations

from collections import Counter

from steersman.errors import OverloadedError, RateLimitedError

__all__ = ["Slots"]

_MOST = 64
_MOST_OF_ONE = 16  # so that what one tenant asks leaves room for the others, and for operators
_RETRY_AFTER = 1.0  # seconds


class Slots:
    """The requests under way in one process; of one event loop, so nothing is locked."""

    def __init__(self) -> None:
        """Start with none."""
        self._taken: Counter[str | None] = Counter()

    def take(self, tenant: str | None) -> None:
        """Count a request with a key of `tenant`, or of an operator for None.

        Raises RateLimitedError when the tenant has its part under way already, OverloadedError when all are taken.
        """
        if tenant is not None and self._taken[tenant] >= _MOST_OF_ONE:
            raise RateLimitedError(
                f"the tenant has {_MOST_OF_ONE} requests under way that are not hot, as many as it may",
                retry_after=_RETRY_AFTER,
            )
        if self._taken.total() >= _MOST:
            raise OverloadedError("too many requests are under way", retry_after=_RETRY_AFTER)
        self._taken[tenant] += 1

    def give_back(self, tenant: str | None) -> None:
        """Count the end of a request that was counted."""
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]
