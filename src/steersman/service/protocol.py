"""How the server answers what is no HTTP request: as everything else that is wrong is answered."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from steersman.service.problems import HttpRefusalError, problem, problem_headers
from steersman.service.request_ids import next_id

__all__ = ["HttpProtocol"]


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's reader of requests, with problem documents for what it cannot read."""

    def send_400_response(self, msg: str) -> None:
        """Answer with `not-http` and end the connection, since nobody knows where the next request begins."""
        request_id = next_id()
        error = HttpRefusalError(400, "not-http", msg, {"connection": "close"})
        body = msgspec.json.encode(problem(error, request_id))
        headers = [
            *self.server_state.default_headers,
            *problem_headers(error),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", request_id.encode()),
        ]
        head = f"HTTP/1.1 400 {HTTPStatus(400).phrase}\r\n".encode()
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(head + lines + b"\r\n" + body)
        self.transport.close()
