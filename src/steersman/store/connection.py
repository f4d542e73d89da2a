"""The connection that store functions take, named here so that nothing else needs to know SQL's library."""

from __future__ import annotations

from typing import TypeAlias

import sqlalchemy

__all__ = ["Connection"]

Connection: TypeAlias = sqlalchemy.Connection
"""A connection within a transaction that a use case owns."""
