"""Commands about archives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.common import DatabaseOption, JsonFlag, TenantArgument, actor, answer, opened
from steersman.console import archive as looks
from steersman.usecases.archive import archive, list_archive

__all__ = ["app", "list_command", "run_command"]

app = typer.Typer(no_args_is_help=True, help="Move what is old and settled to files, and list them.")

_DAY = 86400.0  # seconds


@app.command("run")
def run_command(
    tenant: TenantArgument,
    older_than: Annotated[
        float, typer.Option(min=0, max=36500, help="Days; younger decisions and episodes stay.")
    ],
    output: Annotated[Path, typer.Option(help="A folder; the files go into one of the tenant's in it.")],
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Move old decisions that are settled to Parquet files. A repeated decide is still answered as before."""
    with opened(database) as store:
        done = archive(store, tenant, older_than=older_than * _DAY, output=output, actor=actor())
        answer(done, as_json=as_json, render=lambda: looks.archived_facts(done))


@app.command("list")
def list_command(tenant: TenantArgument, database: DatabaseOption = None, as_json: JsonFlag = False) -> None:
    """List the files of a tenant's archive with their SHA-256, for `sha256sum --check` in their folder."""
    with opened(database) as store:
        files = list_archive(store, tenant)
        answer(files, as_json=as_json, render=lambda: looks.files_text(files))
