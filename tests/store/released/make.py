"""Makes the database file of the present schema: run it once, when a release changes the schema."""

from __future__ import annotations

from pathlib import Path

import pysqlite3

from steersman.library import Steersman
from steersman.store.schema import HEAD

__all__ = ["DECISIONS", "Q_HOLD", "TENANT", "main"]

TENANT = "acme"
DECISIONS = 6
Q_HOLD = 0.5
"""The value of hold in state 0: the mean of the rewards 0.25 and 0.75."""


def main() -> None:
    """Write `<revision>.sqlite3` beside this file, unless it is there."""
    path = Path(__file__).parent / f"{HEAD}.sqlite3"
    if path.exists():
        raise SystemExit(f"{path} is there already; a released schema does not change")
    with Steersman.open(str(path)) as library:
        library.create_tenant(TENANT, {"actions": ["hold", "trade"], "states": 2, "learning": {"gamma": 0.5}})
        for value in (0.25, 0.75):
            decision = library.decide(TENANT, 0, feasible=["hold"], metadata={"negotiation": 1})
            library.reward(TENANT, decision.decision_id, value)
        library.decide(TENANT, 1, feasible=["trade"], episode="closed at the release")
        library.close_episode(TENANT, "closed at the release", 0.5)
        library.decide(TENANT, 1, feasible=["trade"], episode="open at the release")
        library.void(
            TENANT, library.decide(TENANT, 1, feasible=["hold"], reasons={"trade": "no"}).decision_id
        )
        library.decide(TENANT, 0, explore=False)
    connection = pysqlite3.connect(str(path))
    connection.execute("PRAGMA journal_mode=DELETE")  # one file, without the log beside it
    connection.execute("PRAGMA page_size=1024")  # and a small one
    connection.execute("VACUUM")
    connection.close()


if __name__ == "__main__":
    main()
