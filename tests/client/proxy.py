"""Something between client and service that loses answers, holds them back, or has nowhere to send requests to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO
from urllib.parse import urlsplit

__all__ = ["Proxy", "proxying"]

_PATIENCE = 30.0  # seconds


class Proxy:
    """Forwards requests one by one, and remembers what passed."""

    def __init__(self, upstream: str | None) -> None:
        self.upstream = upstream  # the URL of a server; None: connections are closed at once
        self.losing = 0  # answers that will yet be lost, after the server has given them
        self.losing_from: int | None = (
            None  # the number, from 1, of the first answer that is lost with all after it
        )
        self.holding = False  # whether answers are kept until `released`
        self.released = threading.Event()
        self.held = threading.Event()  # an answer was there, and is kept
        self.connections = 0
        self.requests: list[bytes] = []  # first lines
        self.statuses: list[int] = []  # of the server's answers, lost ones too
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def run(self) -> None:
        """Accept connections until the listener is closed."""
        threads = []
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            with self._lock:
                self._open.add(connection)
                self.connections += 1
            threads.append(threading.Thread(target=self._serve, args=(connection,)))
            threads[-1].start()
        for thread in threads:
            thread.join(_PATIENCE)

    def stop(self) -> None:
        """Close the listener and every connection."""
        self.released.set()
        # Closing alone does not wake the thread that waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as incoming:
            try:
                while self.upstream is not None and (request := _message(incoming)):
                    answer = self._forward(request, self.upstream)
                    if answer is None:
                        break
                    connection.sendall(answer)
            except OSError:
                pass
        with self._lock:
            self._open.discard(connection)

    def _forward(self, request: bytes, upstream: str) -> bytes | None:
        target = urlsplit(upstream)
        with socket.create_connection((target.hostname, target.port), _PATIENCE) as server:
            server.sendall(request)
            with server.makefile("rb") as outgoing:
                answer = _message(outgoing)
        with self._lock:
            self.requests.append(request.partition(b"\r\n")[0])
            self.statuses.append(int(answer.split(maxsplit=2)[1]))
            if self.losing:
                self.losing -= 1
                return None
            if self.losing_from is not None and len(self.statuses) >= self.losing_from:
                return None
        if self.holding:
            self.held.set()
            self.released.wait(_PATIENCE)
        return answer


def _message(stream: BinaryIO) -> bytes:
    """Read one request or answer, whose body has the length that it says."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            return b""
        head += line
    lengths = [
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    return head + (stream.read(lengths[0]) if lengths else b"")


@contextmanager
def proxying(upstream: str | None) -> Iterator[Proxy]:
    """Run a proxy in front of the server at `upstream` until the end of the block."""
    proxy = Proxy(upstream)
    thread = threading.Thread(target=proxy.run)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(_PATIENCE)
    assert not thread.is_alive()
