"""The last word on a database: its books cast up again, and the program's own `verify`."""

from __future__ import annotations

from steersman.store.engine import Database
from steersman.usecases.verify import verify
from tests.reliability.books import Books, read_books, reconcile

__all__ = ["judge", "tell"]


def judge(url: str) -> Books:
    """Return the books of a database that is sound; raise AssertionError for one that is not."""
    books = read_books(url)
    assert reconcile(books) == []
    database = Database.open(url)
    try:
        assert verify(database).differences == ()
    finally:
        database.close()
    return books


def tell(seed: int, *facts: object) -> None:
    """Print what a test did; pytest shows it for a test that fails, and for all with `-rP`."""
    print(f"seed {seed}:", *facts)  # noqa: T201
