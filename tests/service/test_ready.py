"""A schema that does not fit, or a file that is another, makes a service that runs not ready."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize("by", ["nothing", "another"])
def test_a_file_that_was_replaced_is_written_no_more(tmp_path: Path, by: str) -> None:
    path = tmp_path / "steersman.db"
    with serving(str(path)) as server:
        company = server.company()
        assert company.post("/v1/decide", {"state": 0, "decision_id": "before"}).status_code == 200
        path.rename(tmp_path / "moved.db")
        if by == "another":
            Steersman.open(str(path)).close()
        for verb, body in (
            ("/v1/decide", {"state": 0}),
            ("/v1/reward", {"decision_id": "before", "value": 0.5}),
        ):
            refused = company.post(verb, body)
            assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
        assert company.http.patch("/v1/tenant", json={"exploration": {"c": 2}}).status_code == 503
        assert server.http.get("/readyz").status_code == 503
        assert "replaced since it was opened" in server.log.getvalue()
        if by == "another":
            return  # its journal has the name of the first one's, so that there is no way back
        (tmp_path / "moved.db").rename(path)
        assert server.http.get("/readyz").status_code == 200
        assert company.post("/v1/decide", {"state": 0, "decision_id": "after"}).status_code == 200
