"""A server for one user on one machine: it answers its own page, and nobody else's.

Anything that runs on this machine, pages of other sites in the user's browser included, can send requests to a port of
it. Four things keep them out. Only 127.0.0.1 is listened on. The address holds a token that nobody can guess, so that
other users of the machine, and other pages, have nothing to ask for. `Host` must name this server, so that a site
cannot pass for it by giving its own name this address (DNS rebinding). `Origin` and `Sec-Fetch-Site`, by which a
browser says whose page asks, must name it too. What a path may be is a fixed list; no part of it reaches the files.
"""

from __future__ import annotations

import errno
import hmac
import json
import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from fossil.errors import FossilError, RunError
from fossil.explorer.asking import Query, RefusedError
from fossil.printable import printable
from fossil.runs.interrupts import Interrupts, hearing_interrupts

ADDRESS = "127.0.0.1"

_LONGEST_TARGET = 8192
_MOST_AT_ONCE = 16  # requests; further ones wait in the system's queue
_PATIENCE = 10.0  # seconds that a connection may keep silent
_PIECE = 2**16  # bytes sent at a time, each with that patience: a forwarded port may be slow, and the answer large
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """What is sent back.

    Attributes:
        content: of the body.
        kind: its media type.
        policy: what the browser may do with it, as a content security policy.
    """

    content: bytes | memoryview
    kind: str
    policy: str = "default-src 'none'; frame-ancestors 'none'"


Routes: TypeAlias = Mapping[str, Callable[[Query], Answer]]
"""What answers each path behind the token; the empty one is the page."""


def as_json(value: Any) -> Answer:
    """Return a plain value as JSON in ASCII; numbers that it has not are refused."""
    return Answer(json.dumps(value, allow_nan=False).encode(), "application/json")


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1 as soon as it is made, and answers once `serve` is called; `with` closes it.

    Args:
        port: any free one when 0.

    Raises:
        RunError: the port is in use, or may not be used.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # on Windows it would take the port away from another program
    request_queue_size = 64

    def __init__(self, port: int = 0) -> None:
        self.routes: Routes = {}
        self.token = secrets.token_urlsafe(18)
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._interrupts = Interrupts()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise RunError(
                f"Port {port} of {ADDRESS} {reason}.", remedy="Choose another --port, or leave it out for a free one."
            ) from error

    def serve(self, routes: Routes) -> None:
        """Answer until `shutdown` is called from another thread.

        Raises:
            KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP, heard between two requests: raised at once, it could hit upon
                code that lets no error through, and be lost.
        """
        self.routes = routes
        with hearing_interrupts(self._interrupts):
            self.serve_forever(poll_interval=0.1)

    def service_actions(self) -> None:
        """End where somebody asked for it; called between two requests, and while there is none."""
        if self._interrupts.heard:
            raise KeyboardInterrupt

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """The names that this server goes by."""
        return f"{ADDRESS}:{self.server_port}", f"localhost:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, once there are not too many."""
        self._slots.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started, which would have made room again
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Say nothing: who breaks a connection off has no need of an answer; faults are told where they occur."""


class _Handler(BaseHTTPRequestHandler):
    """One request on one connection, which is closed after it."""

    server: Server
    timeout = _PATIENCE
    server_version, sys_version = "fossil", ""

    def do_GET(self) -> None:
        """Answer."""
        try:
            self._send(HTTPStatus.OK, self._answer())
        except RefusedError as refused:
            self.send_error(refused.status, refused.what)

    def _answer(self) -> Answer:
        self._check_origin()
        target = urlsplit(self._target())
        _, _, token_and_path = target.path.partition("/")
        token, slash, path = token_and_path.partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())
        route = self.server.routes.get(path) if known and slash else None
        if route is None:
            raise RefusedError("There is nothing here; use the address that was printed.", HTTPStatus.NOT_FOUND)
        query = Query(target.query)
        try:
            return route(query)
        except FossilError as error:
            raise RefusedError(error.what) from error
        except RefusedError:
            raise
        except Exception as error:
            # Its words may be a user's, and a terminal would obey some of them.
            what = printable(f"{type(error).__name__}: {error}")
            _log.error("a fault of fossil-gnn in answering %s: %s", path, what)
            raise RefusedError("This is a fault of fossil-gnn.", HTTPStatus.INTERNAL_SERVER_ERROR) from error

    def _target(self) -> str:
        if len(self.path) > _LONGEST_TARGET:
            raise RefusedError("The address is too long.", HTTPStatus.REQUEST_URI_TOO_LONG)
        if not self.path.startswith("/"):  # a proxy is asked in this way, and this is none
            raise RefusedError("The address does not begin with a slash.")
        return self.path

    def _check_origin(self) -> None:
        """Raise RefusedError unless this server is meant, and its own page, or the user, asks."""
        if self.headers.get_all("Host", []) not in [[name] for name in self.server.hosts]:
            raise RefusedError("The request is for another host.", HTTPStatus.FORBIDDEN)
        own = [f"http://{name}" for name in self.server.hosts]
        foreign = [name for name in self.headers.get_all("Origin", []) if name not in own]
        if foreign or self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise RefusedError("The request comes from another page.", HTTPStatus.FORBIDDEN)

    def _send(self, status: HTTPStatus, answer: Answer) -> None:
        self.send_response(status)
        headers = {"Content-Type": answer.kind, "Content-Length": str(len(answer.content))}
        for name, value in (headers | {"Content-Security-Policy": answer.policy} | _HEADERS).items():
            self.send_header(name, value)
        self.end_headers()
        for start in range(0, len(answer.content), _PIECE):
            self.wfile.write(answer.content[start : start + _PIECE])

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with what is wrong; http.server calls it too, for what is no request at all."""
        status = HTTPStatus(code)
        if status == HTTPStatus.NOT_IMPLEMENTED:  # what http.server says of a method it finds no function for
            status, message = HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is answered."
        self._send(status, as_json({"error": message or status.phrase}))

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no record of what is looked at."""
