"""Commands about decisions: decide, reward, close, void, expire, why, decisions."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from steersman.cli.common import (
    MOST,
    DatabaseOption,
    JsonFlag,
    TenantArgument,
    answer,
    opened,
    parse_json_object,
    parse_state,
)
from steersman.console import decisions as looks
from steersman.errors import InvalidInputError
from steersman.usecases.close_episode import close_episode
from steersman.usecases.decide import decide
from steersman.usecases.expire import expire
from steersman.usecases.explain import explain, list_decisions
from steersman.usecases.reward import reward
from steersman.usecases.tenants import list_tenants, show_tenant
from steersman.usecases.void import void

__all__ = [
    "close_command",
    "decide_command",
    "expire_command",
    "list_command",
    "reward_command",
    "void_command",
    "why_command",
]

_DecisionArgument = Annotated[str, typer.Argument(help="The decision's id.")]


def decide_command(
    tenant: TenantArgument,
    state: Annotated[
        list[str], typer.Option("--state", "-s", help="An index, or factor=value for each factor.")
    ],
    feasible: Annotated[
        list[str] | None,
        typer.Option("--feasible", "-f", help="An action that may be played now. [default: all]"),
    ] = None,
    episode: Annotated[str | None, typer.Option(help="The episode that the decision belongs to.")] = None,
    decision_id: Annotated[
        str | None,
        typer.Option("--id", help="The decision's id: with the same id and request, the same answer."),
    ] = None,
    explore: Annotated[
        bool, typer.Option(help="Whether to explore, or to play the best known action.")
    ] = True,
    metadata: Annotated[
        str | None, typer.Option(help="A small JSON object of your own, kept with the decision.")
    ] = None,
    reason: Annotated[
        list[str] | None, typer.Option(help="action=text: why an action that is left out may not be played.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Choose an action now, and log why."""
    with opened(database) as store:
        spec = show_tenant(store, tenant).spec
        decision = decide(
            store,
            tenant,
            parse_state(state, spec),
            feasible=feasible,
            episode=episode,
            decision_id=decision_id,
            explore=explore,
            metadata=parse_json_object(metadata, option="--metadata"),
            reasons=_parse_reasons(reason) if reason else None,
        )
        answer(decision, as_json=as_json, render=lambda: looks.decision_facts(decision, spec))


def _parse_reasons(texts: list[str]) -> dict[str, str]:
    reasons = {}
    for text in texts:
        action, equals, why = text.partition("=")
        if not equals:
            raise InvalidInputError(f"--reason: expected action=text, got {text!r}")
        reasons[action] = why
    return reasons


def reward_command(
    tenant: TenantArgument,
    decision_id: _DecisionArgument,
    value: Annotated[float, typer.Argument(help="The reward, within the tenant's reward range.")],
    reward_id: Annotated[
        str | None,
        typer.Option("--id", help="An id of its own, for a further reward. [default: the decision's]"),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Record what came of a decision."""
    with opened(database) as store:
        recorded = reward(store, tenant, decision_id, value, reward_id=reward_id)
        answer(recorded, as_json=as_json, render=lambda: looks.reward_sentence(recorded))


def close_command(
    tenant: TenantArgument,
    episode: Annotated[str, typer.Argument(help="The episode.")],
    outcome: Annotated[float | None, typer.Option(help="The reward that closes it.")] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Close an episode and learn from what is still open in it."""
    with opened(database) as store:
        closed = close_episode(store, tenant, episode, outcome)
        answer(closed, as_json=as_json, render=lambda: looks.closed_sentence(closed))


def void_command(
    tenant: TenantArgument,
    decision_id: _DecisionArgument,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Take back a decision that was never acted upon."""
    with opened(database) as store:
        decision = void(store, tenant, decision_id)
        answer(decision, as_json=as_json, render=lambda: f"{decision.decision_id}: taken back")


def expire_command(
    tenant: Annotated[str | None, typer.Argument(help="The tenant's id. [default: every tenant]")] = None,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Give the default reward to decisions and episodes that have waited for longer than the tenant allows."""
    with opened(database) as store:
        names = [tenant] if tenant is not None else [owner.tenant for owner in list_tenants(store)]
        expired = [expire(store, name) for name in names]
        answer(expired, as_json=as_json, render=lambda: looks.expired_table(expired))


def why_command(
    tenant: TenantArgument,
    decision_id: _DecisionArgument,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show why an action was chosen: the row as seen, bonus, greedy set, mask with reasons, draw."""
    with opened(database) as store:
        explanation = explain(store, tenant, decision_id)
        answer(explanation, as_json=as_json, render=lambda: looks.explanation_parts(explanation))


def list_command(
    tenant: TenantArgument,
    episode: Annotated[str | None, typer.Option(help="Only of this episode.")] = None,
    status: Annotated[
        Literal["open", "learned", "void"] | None, typer.Option(help="Only with this status.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(help="Only with these keys and values, a JSON object.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many, the newest.")] = 100,
    database: DatabaseOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List decisions, newest first."""
    with opened(database) as store:
        wanted = parse_json_object(metadata, option="--metadata")
        found = list_decisions(store, tenant, episode=episode, status=status, metadata=wanted, limit=limit)
        spec = show_tenant(store, tenant).spec
        answer(found, as_json=as_json, render=lambda: looks.decisions_table(found, spec))
