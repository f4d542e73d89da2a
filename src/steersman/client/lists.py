"""Lists: long ones are sent in parts of bounded length, and read page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from steersman.client.exchange import Call, Request
from steersman.client.wire import read_items, read_list
from steersman.errors import SteersmanError

__all__ = ["LARGEST_LIST", "LONGEST_LIST", "LONGEST_PAGE", "every_page", "in_parts", "up_to"]

_T = TypeVar("_T")
_R = TypeVar("_R")

LONGEST_LIST = 256
"""The most items of one request; a longer list is sent as several."""

LONGEST_PAGE = 1000
"""The most items of one page of what is read; a longer list is read as several."""

LARGEST_LIST = 500_000
"""The most bytes of one request of several items, well within what a service takes by default."""


def in_parts(
    path: str, requests: Sequence[_T], body_of: Callable[[_T], bytes], read_one: Callable[[bytes], _R]
) -> Call[list[_R | SteersmanError]]:
    """Send a list in parts of bounded length; what cannot be sent is answered with its error, as in the library.

    When a part fails as a whole after others were done, its items and all that follow are answered with its error,
    each with one of its own, and nothing more is sent. Raises when it is the first.
    """
    answers: list[_R | SteersmanError | None] = []
    bodies: list[tuple[int, bytes]] = []
    for request in requests:
        try:
            bodies.append((len(answers), body_of(request)))
            answers.append(None)
        except SteersmanError as error:
            answers.append(error)
    failed: SteersmanError | None = None
    for number, part in enumerate(_parts(bodies)):
        found: list[_R | SteersmanError] = []
        if failed is None:
            try:
                found = yield from _one_part(path, part, read_one)
            except SteersmanError as error:
                if number == 0:
                    raise
                failed = error
        for place, (index, _) in enumerate(part):
            answers[index] = found[place] if failed is None else _same(failed)
    return [answer for answer in answers if answer is not None]


def _one_part(
    path: str, part: Sequence[tuple[int, bytes]], read_one: Callable[[bytes], _R]
) -> Call[list[_R | SteersmanError]]:
    joined = b",".join(body for _, body in part)
    found = read_items((yield Request("POST", path, body=b'{"items":[' + joined + b"]}")), read_one)
    if len(found) != len(part):
        raise SteersmanError(f"expected {len(part)} answers, got {len(found)}")
    return found


def _same(error: SteersmanError) -> SteersmanError:
    """Return an error that says the same, to which notes of its own can be added."""
    other = type(error).__new__(type(error), *error.args)
    other.__dict__.update(error.__dict__)
    other.__dict__["__notes__"] = list(getattr(error, "__notes__", ()))
    return other


def _parts(bodies: Sequence[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
    parts: list[list[tuple[int, bytes]]] = []
    size = 0
    for item in bodies:
        size += len(item[1])
        if not parts or len(parts[-1]) == LONGEST_LIST or size > LARGEST_LIST:
            parts.append([])
            size = len(item[1])
        parts[-1].append(item)
    return parts


def every_page(look: Callable[..., Request], read_one: Callable[[bytes], _R]) -> Call[list[_R]]:
    """Read a list to its last page; `look` makes the request of a page, from the one behind `after` where given."""
    found, following = read_list((yield look()), read_one)
    while following is not None:
        more, following = read_list((yield look(after=following)), read_one)
        found += more
    return found


def up_to(
    limit: int, look: Callable[..., Request], read_one: Callable[[bytes], _R], *, after: str | None
) -> Call[list[_R]]:
    """Read at most `limit` items of a list that goes on behind `after`, page by page; see `every_page`."""
    found: list[_R] = []
    while True:
        request = look(after=after, limit=min(limit - len(found), LONGEST_PAGE))
        page, after = read_list((yield request), read_one)
        found += page
        if after is None or len(found) >= limit:
            return found
