"""Versions made by hand, for what is worked out from their catalogues and states alone."""

from __future__ import annotations

from collections.abc import Sequence

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import PolicyVersion
from steersman.domain.settings import PolicySettings
from steersman.domain.states import Factor, StateSpace

__all__ = ["space", "version"]


def space(**factors: Sequence[str]) -> StateSpace:
    """Return the product of factors, given by name with their values."""
    return StateSpace(tuple(Factor(name, tuple(values)) for name, values in factors.items()))


def version(
    number: int,
    actions: str,
    states: StateSpace | int = 1,
    *,
    parent: int | None = None,
    origin: str = "migrated",
) -> PolicyVersion:
    """Return version `number` of a tenant; each letter of `actions` is an id."""
    return PolicyVersion(
        tenant="t",
        number=number,
        kind="ucb_q_table",
        status="superseded",
        name=None,
        states=StateSpace.plain(states) if isinstance(states, int) else states,
        actions=ActionCatalogue(tuple(actions)),
        settings=PolicySettings(),
        parent=parent,
        origin=origin,
    )
