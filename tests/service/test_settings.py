"""The settings of the service: read from the environment and a file, and refused beyond their bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.errors import InvalidInputError
from steersman.settings import Settings


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "steersman.toml"
    file.write_text('queue_limit = 7\ncommit = "inline"\noperator_url = "operators.db"\n')
    settings = Settings.read(
        {"STEERSMAN_CONFIG": str(file), "STEERSMAN_QUEUE_LIMIT": "9", "STEERSMAN_KEY_RATE": "0.5"}
    )
    assert (settings.queue_limit, settings.key_rate) == (9, 0.5)
    assert (settings.commit, settings.operator_url) == ("inline", "operators.db")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body_limit", "1023"),
        ("queue_limit", "0"),
        ("queue_limit", "many"),
        ("key_rate", "0"),
        ("key_rate", "nan"),
        ("key_in_flight", "0"),
        ("pool_size", "0"),
        ("pool_size", "1001"),
        ("commit", "never"),
        ("log_requests", "yes"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?i){name}: expected"):
        Settings.read({f"STEERSMAN_{name.upper()}": value})
