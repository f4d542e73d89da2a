"""A tenant that has something of everything to archive, and what is there of it before and after."""

from __future__ import annotations

from typing import Any

from steersman.usecases.verify import verify
from tests.support.company import Company

__all__ = ["TABLES", "count", "differences", "live"]

TABLES = (
    "decisions",
    "rewards",
    "learning_steps",
    "archived_decisions",
    "archived_rewards",
    "cell_checkpoints",
    "archive_files",
)


def count(company: Company) -> dict[str, int]:
    """Return how many rows there are of each of `TABLES`."""
    return {name: len(company.rows(name)) for name in TABLES}


def differences(company: Company) -> list[tuple[str, str, Any, Any]]:
    """Return (subject, field, stored, rebuilt) of each difference that `verify` finds."""
    found = verify(company.library.database, company.name).differences
    return [(item.subject, item.field, item.stored, item.rebuilt) for item in found]


def live(company: Company) -> None:
    """Make decisions of every kind: settled, open, void, and in episodes, closed and open."""
    company.teach("hold", 0.25, 0.75)
    company.reward(company.play("trade", decision_id="learned", metadata={"b": 1, "a": [1.5, "ä"]}), 0.5)
    company.reward("learned", 0.25, reward_id="further")
    company.void(company.play("hold", 1, decision_id="void", reasons={"trade": "closed"}))
    company.decide(1, decision_id="open")
    for step in range(3):
        company.play("trade", 1, episode="closed", decision_id=f"c{step}")
    company.reward("c0", 0.5)
    company.close("closed", 1.0)
    company.play("trade", 1, episode="going on", decision_id="g0")
