"""A schema that does not fit makes a service that runs not ready, on both databases."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from steersman.library import Steersman
from tests.support.served import serving


@pytest.mark.parametrize(
    ("revision", "told"), [("0001", "steersman db upgrade"), ("9999", "a newer release")]
)
def test_a_schema_that_is_not_current_is_not_ready(store_url: str, revision: str, told: str) -> None:
    Steersman.open(store_url).close()
    roles = store_url.startswith("postgresql")
    with serving(store_url, roles=roles) as server:
        assert server.http.get("/readyz").json() == {"status": "ready"}
        with server.library.database.transaction() as connection:
            connection.execute(text("DELETE FROM schema_floor"))
            connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
        refused = server.http.get("/readyz")
        assert (refused.status_code, refused.json()["code"]) == (503, "not-ready")
        assert told in refused.json()["detail"]
        assert server.http.get("/healthz").status_code == 200
