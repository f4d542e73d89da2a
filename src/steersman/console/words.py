"""Small things in words: times, numbers, yes and no."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["count", "moment", "number", "yes_no"]

_MOST_READABLE = 1e15


def moment(microseconds: int | None) -> str:
    """Return a time as `2026-01-31 12:00:00` in UTC; a dash for none."""
    if microseconds is None:
        return "-"
    return datetime.fromtimestamp(microseconds / 1e6, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def number(value: float | None, *, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, of at least all before the point; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if 10**digits - 0.5 <= abs(value) < _MOST_READABLE else f"{value:.{digits}g}"


def count(value: int, noun: str) -> str:
    """Return `1 cell`, `2 cells`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def yes_no(value: object) -> str:
    """Return `yes` or `no`."""
    return "yes" if value else "no"
