"""The client: the verbs of the library over HTTP, blocking or for asyncio."""

from __future__ import annotations

from importlib.util import find_spec

from steersman.errors import MissingExtraError

if find_spec("httpx") is None:
    raise MissingExtraError("client", purpose="calling a service")

from steersman.client.awaiting import AsyncClient, AsyncOpenEpisode
from steersman.client.blocking import Client

__all__ = ["AsyncClient", "AsyncOpenEpisode", "Client"]
