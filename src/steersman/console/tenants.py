"""How tenants, declarations and what a change does look."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table

from steersman.console.grid import facts, grid
from steersman.console.words import count, moment, number, yes_no
from steersman.domain.answers import AuditLine, Fate, MigrationPlan, Owner
from steersman.domain.settings import TenantSpec
from steersman.usecases.apply import Applied

__all__ = ["applied_table", "audit_table", "owners_table", "plan_parts", "rows_table", "tenant_parts"]

_FATES = ("kept", "moved", "new", "parked", "restored")


def owners_table(title: str, owners: Sequence[Owner]) -> Table:
    """Return a table of tenants or bases."""
    rows = [
        (
            owner.tenant.removeprefix("@"),
            owner.status,
            str(len(owner.spec.actions)),
            f"{owner.spec.states.size:,}",
            "-" if owner.active_version is None else str(owner.active_version),
            owner.spec.base or "-",
            yes_no(owner.spec.contributes),
            moment(owner.created_at),
        )
        for owner in owners
    ]
    columns = ["name", "status", "actions", "states", "active version", "base", "contributes", "created"]
    return grid(title, columns, rows, numbers=["actions", "states", "active version"])


def tenant_parts(owner: Owner) -> list[RenderableType]:
    """Return what a tenant or base declares: its facts, its actions and its states."""
    spec = owner.spec
    settings = spec.settings
    wait = (
        "never" if spec.reward_wait is None else f"{spec.reward_wait:g} s, then {number(spec.default_reward)}"
    )
    pairs = {
        "status": owner.status,
        "active version": "none yet" if owner.active_version is None else str(owner.active_version),
        "step size": "1/n" if settings.alpha is None else number(settings.alpha),
        "discount": number(settings.gamma),
        "lambda": number(settings.lam),
        "exploration": f"c = {number(settings.c)}, epsilon = {number(settings.epsilon)}",
        "reward range": f"{number(settings.reward_low)} to {number(settings.reward_high)}",
        "waits for rewards": wait,
        "base": f"{spec.base} (borrows at most {spec.borrow_cap:g})" if spec.base else "none",
        "contributes": yes_no(spec.contributes),
    }
    return [facts(owner.tenant, pairs), _actions_table(spec), _states_table(spec)]


def _actions_table(spec: TenantSpec) -> Table:
    priors = spec.settings.prior_of
    rows = []
    for action, label in zip(spec.actions.ids, spec.labels, strict=True):
        prior = priors.get(action)
        shown = "-" if prior is None else f"{number(prior.q)}, weight {number(prior.weight)}"
        rows.append((action, label, shown))
    return grid("Actions", ["id", "label", "prior"], rows)


def _states_table(spec: TenantSpec) -> RenderableType:
    if not spec.states.factors:
        return f"{count(spec.states.size, 'state')} without meaning"
    rows = [(factor.name, ", ".join(factor.values), factor.before or "-") for factor in spec.states.factors]
    return grid(count(spec.states.size, "state"), ["factor", "values", "before"], rows)


def plan_parts(plan: MigrationPlan, *, dry_run: bool) -> list[RenderableType]:
    """Return what a changed declaration does: in words, and as a table of what became of what."""
    changed = ", ".join(plan.changed) or "nothing"
    if not plan.needs_version:
        return [f"{plan.tenant}: changes {changed}; no new version is needed"]
    verb = (
        "would make a new version" if dry_run else f"version {plan.version} is active, made of {plan.before}"
    )
    rows = [
        (name, *(f"{getattr(fate, group).count:,}" for group in _FATES))
        for name, fate in (("actions", plan.actions), ("states", plan.states), ("cells", plan.cells))
    ]
    parts: list[RenderableType] = [f"{plan.tenant}: changes {changed}; {verb}"]
    parts.append(grid("What becomes of", ["", *_FATES], rows, numbers=_FATES))
    return [*parts, *_named(plan.actions), *plan.remarks]


def _named(actions: Fate) -> list[RenderableType]:
    groups = [(name, getattr(actions, name).shown) for name in ("new", "parked", "restored")]
    return [f"actions {name}: {', '.join(ids)}" for name, ids in groups if ids]


def applied_table(applied: Sequence[Applied]) -> Table:
    """Return what became of each declaration of a file."""
    rows = []
    for item in applied:
        made = item.plan.version if item.plan is not None else None
        rows.append((item.kind, item.name, item.outcome, "-" if made is None else str(made)))
    return grid("Applied", ["kind", "name", "outcome", "new version"], rows, numbers=["new version"])


def rows_table(title: str, rows: Mapping[str, int]) -> Table:
    """Return how many rows of each table."""
    return grid(
        title, ["table", "rows"], [(name, f"{size:,}") for name, size in rows.items()], numbers=["rows"]
    )


def audit_table(lines: Sequence[AuditLine]) -> Table:
    """Return the lines of an audit trail."""
    rows = [(moment(line.created_at), line.actor, line.verb, _short(line.detail)) for line in lines]
    return grid("Audit trail", ["when (UTC)", "who", "what", "detail"], rows)


def _short(detail: Mapping[str, object]) -> str:
    text = json.dumps(dict(detail), ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."
