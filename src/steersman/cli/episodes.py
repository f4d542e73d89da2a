"""Commands about episodes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from steersman.cli.common import MOST, DatabaseOption, JsonFlag, TenantArgument, answer, opened
from steersman.console import decisions as looks
from steersman.usecases.episodes import list_episodes, show_episode
from steersman.usecases.tenants import show_tenant

__all__ = ["app", "list_command", "show_command"]

app = typer.Typer(no_args_is_help=True, help="List and show episodes.")


@app.command("list")
def list_command(
    tenant: TenantArgument,
    status: Annotated[Literal["open", "closed"] | None, typer.Option(help="Only with this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many, the latest touched.")] = 100,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List episodes, the latest touched first."""
    with opened(database) as store:
        found = list_episodes(store, tenant, status=status, limit=limit)
        answer(found, as_json=as_json, render=lambda: looks.episodes_table(found))


@app.command("show")
def show_command(
    tenant: TenantArgument,
    episode: Annotated[str, typer.Argument(help="The episode.")],
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show an episode and its decisions in order."""
    with opened(database) as store:
        detail = show_episode(store, tenant, episode)
        spec = show_tenant(store, tenant).spec
        answer(detail, as_json=as_json, render=lambda: looks.episode_parts(detail, spec))
