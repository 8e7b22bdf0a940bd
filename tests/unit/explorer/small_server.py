"""A server in a thread of the test, and requests of every kind to it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from fossil.explorer.serving import ADDRESS, Routes, Server


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def serving(routes: Routes) -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve, args=(routes,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> Reply:
    """Ask for what stands behind the token; a header's name has underscores for hyphens."""
    connection = HTTPConnection(ADDRESS, server.server_port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"/{server.token}/{path}", headers=named)
    return _reply(connection.getresponse())


def ask_raw(server: Server, lines: bytes) -> Reply:
    """Send bytes that need not be a request."""
    with socket.create_connection((ADDRESS, server.server_port), timeout=30) as stream:
        stream.sendall(lines)
        response = HTTPResponse(stream)
        response.begin()
        return _reply(response)


def _reply(response: HTTPResponse) -> Reply:
    return Reply(response.status, dict(response.getheaders()), response.read())
