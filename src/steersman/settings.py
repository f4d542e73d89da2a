"""Every setting of the program, read once from the environment and an optional file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from steersman.errors import InvalidInputError

__all__ = ["Settings"]

_PREFIX = "STEERSMAN_"
_BOUNDS = {
    "pool_size": (1, 1000, "connections"),
    "body_limit": (1024, 2**30, "bytes"),
    "queue_limit": (1, 10**6, "items"),
    "key_rate": (0.01, 1e9, "requests a second"),
    "key_in_flight": (1, 10**6, "requests"),
}
_CHOICES = {"commit": ["auto", "thread", "inline"], "log_requests": ["all", "some", "none"]}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings; the environment variable of each is its name in capitals behind `STEERSMAN_`."""

    database_url: str = "steersman.db"  # a file, sqlite:///file, or postgresql://...
    patience: float = 30.0  # seconds to wait for a busy or restarting database
    pool_size: int = 16  # connections to a server that one process may hold
    operator_url: str = (
        ""  # where the service looks keys up and runs operators' calls; as database_url when empty
    )
    body_limit: int = 1_048_576  # bytes of a request to the service
    queue_limit: int = (
        4096  # decides, rewards or closes that wait in one process; beyond, they are refused with 503
    )
    key_rate: float = (
        10_000.0  # requests a second of one key to one process, of :batch each item; beyond, 429
    )
    key_in_flight: int = 1000  # requests of one key that one process answers at a time; beyond, 429
    commit: str = (
        "auto"  # where the service commits: inline (in the event loop), thread, auto (as suits the database)
    )
    log_requests: str = "some"  # requests the service logs: all, some (what fails or is not hot), or none

    def __post_init__(self) -> None:
        """Check the bounds; raise InvalidInputError."""
        for name, (low, high, unit) in _BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidInputError(f"{name}: expected {low} to {high:,} {unit}, got {value}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidInputError(f"{name}: expected one of {choices}, got {getattr(self, name)!r}")
        if not 0 < self.patience <= 3600:
            raise InvalidInputError(f"patience: expected above 0 to 3600 seconds, got {self.patience}")

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the TOML file that `STEERSMAN_CONFIG` names, if it does, overlaid by the environment.

        Raises InvalidInputError for an unreadable file, an unknown name or a value of the wrong type.
        """
        environment = os.environ if environment is None else environment
        given: dict[str, Any] = {}
        path = environment.get(f"{_PREFIX}CONFIG")
        if path:
            try:
                given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise InvalidInputError(f"expected a readable TOML file: {error}", where=path) from None
        types = {field.name: field.type for field in fields(cls)}
        unknown = sorted(set(given) - set(types))
        if unknown:
            raise InvalidInputError(f"unexpected {unknown}; expected {sorted(types)}", where=path)
        for name in types:
            value = environment.get(_PREFIX + name.upper())
            if value is not None:
                given[name] = value
        return cls(**{name: _converted(name, value, types[name]) for name, value in given.items()})


def _converted(name: str, value: Any, kind: Any) -> Any:
    try:
        return {"str": str, "float": float, "int": int}[kind](value)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{_PREFIX}{name.upper()}: expected {kind}, got {value!r}") from None
