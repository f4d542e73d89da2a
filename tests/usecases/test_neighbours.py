"""Two tenants that use the same ids: neither reads anything of the other, in whatever way."""

from __future__ import annotations

from typing import Any

from steersman.library import Steersman
from steersman.usecases.episodes import list_episodes, show_episode
from steersman.usecases.explain import list_decisions
from steersman.usecases.tenants import audit_trail

DECLARED: dict[str, Any] = {"actions": ["hold", "trade"], "states": 2}


def live(library: Steersman, tenant: str, value: float) -> None:
    """Decisions, rewards, an episode, a second version and a key, all under the same ids for every tenant."""
    library.create_tenant(tenant, DECLARED)
    library.decide(tenant, 0, feasible=["hold"], decision_id="d", metadata={"of": tenant})
    library.reward(tenant, "d", value)
    library.reward(tenant, "d", value / 2, reward_id=f"further {value}")
    library.decide(tenant, 1, feasible=["trade"], decision_id=f"own {value}", episode="e")
    library.close_episode(tenant, "e", value)
    library.decide(tenant, 1, feasible=["trade"], decision_id="open", episode="f")
    library.freeze(tenant, "kept", operation_id="op")
    library.create_key(tenant, name=f"key {value}")


def reading(library: Steersman, tenant: str, own: str) -> list[object]:
    """All that is read of a tenant."""
    database = library.database
    return [
        *(library.explain(tenant, name) for name in ("d", own, "open")),
        list_decisions(database, tenant, limit=100),
        list_episodes(database, tenant),
        *(show_episode(database, tenant, name) for name in ("e", "f")),
        library.show(tenant),
        library.show(tenant, version="kept"),
        library.list_versions(tenant),
        library.show_tenant(tenant),
        library.list_keys(tenant),
        library.doctor(tenant),
        library.verify(tenant),
        audit_trail(database, tenant),
    ]


def test_a_neighbour_with_the_same_ids_changes_nothing_that_is_read(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        live(library, "acme", 0.25)
        alone = reading(library, "acme", "own 0.25")
        live(library, "bolt", 0.75)
        assert reading(library, "acme", "own 0.25") == alone
        assert [reward.value for reward in library.explain("bolt", "d").rewards] == [0.75, 0.375]
        assert library.verify("bolt").clean
        beside = reading(library, "bolt", "own 0.75")
        library.erase_tenant("acme")
        assert reading(library, "bolt", "own 0.75") == beside
