"""Records what the present release sends to a database: run it once for each database, when the schema changes.

`python -m tests.store.released.record` writes `<revision>.<dialect>.json` beside this file: the statements of a small
company's life, in transactions, with their parameters. Tests send them to the schemas of later releases.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy import event

from steersman.domain.records import DecideRequest
from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.store.schema import HEAD
from steersman.usecases import scope
from tests.support.postgres import temporary_cluster

__all__ = ["TENANT", "Statement", "load", "main", "send"]

TENANT = "acme"
Statement = tuple[str, str, Any]
"""(method of the cursor, text, parameters)."""

_FOLDER = Path(__file__).parent
_END = "end"  # what stands for the end of a transaction


class _Listening:
    """A cursor that notes what is asked of it."""

    def __init__(self, cursor: Any, log: list[Statement]) -> None:
        self._cursor = cursor
        self._log = log

    def execute(self, text: str, parameters: Any = ()) -> Any:
        self._log.append(("execute", text, parameters))
        return self._cursor.execute(text, parameters)

    def executemany(self, text: str, parameters: Any) -> None:
        self._log.append(("executemany", text, parameters))
        self._cursor.executemany(text, parameters)

    def fetchall(self) -> Any:
        return self._cursor.fetchall()


@contextmanager
def _recorded(database: Database) -> Iterator[list[Statement]]:
    log: list[Statement] = []
    plain, commit = scope.Scope.__init__, database.commit_hot

    def listening(self: scope.Scope, *arguments: Any) -> None:
        plain(self, *arguments)
        self.cursor = _Listening(self.cursor, log)

    def ended(*arguments: Any) -> None:
        log.append((_END, "", ()))
        if len(arguments) == 1 and not hasattr(arguments[0], "dialect"):
            commit(arguments[0])

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_: Any, __: Any, text: str, parameters: Any, ___: Any, many: bool) -> None:
        log.append(("executemany" if many else "execute", text, parameters))

    event.listen(database.engine, "commit", ended)
    with (
        mock.patch.object(scope.Scope, "__init__", listening),
        mock.patch.object(database, "commit_hot", ended),
    ):
        yield log


def _live(library: Steersman) -> None:
    library.create_tenant(TENANT, {"actions": ["hold", "trade"], "states": 3, "learning": {"gamma": 0.5}})
    for number, value in enumerate((0.25, 0.75)):
        library.decide(TENANT, 0, feasible=["hold"], decision_id=f"d{number}", metadata={"deal": number})
        library.reward(TENANT, f"d{number}", value)
    library.reward(TENANT, "d0", 0.5, reward_id="further")
    library.void(TENANT, library.decide(TENANT, 1, reasons={}, decision_id="v").decision_id)
    for number in range(3):
        library.decide(TENANT, number, episode="deal", decision_id=f"e{number}")
        library.reward(TENANT, f"e{number}", 0.5)
    library.close_episode(TENANT, "deal", 1.0)
    library.decide_many(
        [DecideRequest(TENANT, 0, None, "ghost", "d0"), DecideRequest(TENANT, 2, None, "open", "o")]
    )
    library.freeze(TENANT, "then")
    library.change_tenant(TENANT, {"actions": ["hold", "trade", "walk"]})
    library.decide(TENANT, 0, decision_id="last")


def _record(url: str) -> None:
    database = Database.open(url, upgrade=True)
    with _recorded(database) as log:
        _live(Steersman(database))
    path = _FOLDER / f"{HEAD}.{database.dialect}.json"
    if path.exists():
        raise SystemExit(f"{path} is there already; what a release sent does not change")
    path.write_text(json.dumps(log, default=_packed, indent=0) + "\n", encoding="ascii")
    database.close()


def _packed(value: Any) -> Any:
    value = getattr(value, "obj", value)  # as psycopg wraps bytes
    if isinstance(value, (bytes, memoryview)):
        return {"bytes": bytes(value).hex()}
    return dict(value)


def _unpacked(body: dict[str, Any]) -> Any:
    return bytes.fromhex(body["bytes"]) if set(body) == {"bytes"} else body


def load(revision: str, dialect: str) -> list[list[Statement]]:
    """Return the transactions that the release of `revision` sent."""
    path = _FOLDER / f"{revision}.{dialect}.json"
    transactions: list[list[Statement]] = [[]]
    for method, text, parameters in json.loads(path.read_text(), object_hook=_unpacked):
        if method == _END:
            transactions.append([])
        else:
            transactions[-1].append((method, text, parameters))
    return transactions[:-1]


def send(driver: Any, transactions: list[list[Statement]]) -> int:
    """Send transactions by a connection of the driver, fetch what they answer, and return the number of statements."""
    count = 0
    for statements in transactions:
        cursor = driver.cursor()
        for method, text, parameters in statements:
            getattr(cursor, method)(text, parameters)
            if method == "execute" and cursor.description is not None:
                cursor.fetchall()
            count += 1
        driver.commit()
    return count


def main() -> None:
    """Record on both databases."""
    with tempfile.TemporaryDirectory() as folder:
        _record(str(Path(folder) / "recorded.db"))
    with temporary_cluster() as cluster:
        _record(cluster.url(cluster.create_database()))


if __name__ == "__main__":
    main()
