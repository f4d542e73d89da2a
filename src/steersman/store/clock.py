"""The time that rows carry."""

from __future__ import annotations

import time

__all__ = ["now"]


def now() -> int:
    """Return the microseconds since 1970, UTC."""
    return time.time_ns() // 1000
