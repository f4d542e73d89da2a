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


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings; the environment variable of each is its name in capitals behind `STEERSMAN_`."""

    database_url: str = "steersman.db"  # a file, sqlite:///file, or postgresql://...
    patience: float = 30.0  # seconds to wait for a busy or restarting database
    pool_size: int = 16  # connections to a server that one process may hold

    def __post_init__(self) -> None:
        """Check the bounds; raise InvalidInputError."""
        if not 0 < self.patience <= 3600:
            raise InvalidInputError(f"patience: expected above 0 to 3600 seconds, got {self.patience}")
        if not 1 <= self.pool_size <= 1000:
            raise InvalidInputError(f"pool_size: expected 1 to 1000 connections, got {self.pool_size}")

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
