"""Negotiation with NegMAS: cards, what a negotiator sees, domains, opponents, and companies that learn."""

from __future__ import annotations

from importlib.util import find_spec

from steersman.errors import MissingExtraError

__all__: list[str] = []

if find_spec("negmas") is None:
    raise MissingExtraError("negmas", purpose="negotiating with NegMAS")
