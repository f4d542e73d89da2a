"""Commands that look after a database."""

from __future__ import annotations

from typing import Annotated

import typer

from steersman.cli.common import DatabaseOption, JsonFlag, answer, counting, opened
from steersman.console import health as looks
from steersman.usecases.doctor import doctor
from steersman.usecases.verify import verify

__all__ = ["doctor_command", "verify_command"]

_TenantOption = Annotated[
    str | None, typer.Argument(help="The tenant's id. [default: every tenant and base]")
]


def verify_command(
    tenant: _TenantOption = None, database: DatabaseOption = None, as_json: JsonFlag = False
) -> None:
    """Recompute every logged probability and draw, and fold every cell from its steps; exit 1 on a difference."""
    with opened(database) as store:
        with counting("verifying", quiet=as_json) as move:
            result = verify(store, tenant, progress=move)
        answer(result, as_json=as_json, render=lambda: looks.verification_parts(result))
    if result.count:
        raise typer.Exit(1)


def doctor_command(
    tenant: Annotated[str | None, typer.Argument(help="The tenant's id. [default: every tenant]")] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say in plain words what goes wrong quietly: untried actions, ties, missing rewards, stale episodes and more."""
    with opened(database) as store:
        checkup = doctor(store, tenant)
        answer(checkup, as_json=as_json, render=lambda: looks.checkup_parts(checkup))
