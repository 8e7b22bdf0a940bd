"""Servers that send something else than the published file: nothing of it may be kept, and the next one mends all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cell import Verdict, where
from containers import ZIP, packed
from damage import BYTES

from fossil.datasets import fetch, verify
from fossil.datasets.fetch import cache_root, find_or_fetch
from fossil.datasets.pins import Pin
from fossil.errors import DataError, FossilError

FILE = "Small/raw/edges.txt"
RIGHT = b"".join(b"%d %d\n" % (number, number * 7 % 100) for number in range(100))
ARCHIVE = packed([("small/raw/edges.txt", RIGHT), ("small/README", b"about")], zipfile.ZIP_DEFLATED)
OTHER = packed([("small/raw/edges.txt", RIGHT[::-1]), ("small/README", b"about")])
_OK, _CHUNKED = b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_STALL = 5  # seconds that fetching waits here for a server that says nothing

Send = Callable[[BaseHTTPRequestHandler, bytes], None]


def respond(status: int = 200, body: bytes | None = None, **headers: str) -> Send:
    def send(handler: BaseHTTPRequestHandler, right: bytes) -> None:
        content = right if body is None else body
        handler.send_response(status)
        if "Content_Length" not in headers:
            handler.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)

    return send


def _raw(answer: Callable[[bytes], bytes]) -> Send:
    return lambda handler, right: handler.wfile.write(answer(right)) and None  # type: ignore[func-returns-value]


def _endless(handler: BaseHTTPRequestHandler, right: bytes) -> None:
    handler.send_response(200)
    handler.end_headers()
    block = bytes(2**20)
    for _ in range(5000):
        handler.wfile.write(block)


def _stalling(handler: BaseHTTPRequestHandler, right: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(right)))
    handler.end_headers()
    handler.wfile.write(right[:10])
    handler.wfile.flush()
    threading.Event().wait(4 * _STALL)


def _repacked(**changes: int) -> bytes:
    """The archive with fields of its members' headers forged: flags, or the method of compression."""
    damaged = bytearray(ARCHIVE)
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        place = -1
        while (place := damaged.find(mark, place + 1)) >= 0:
            for shift, value in changes.items():
                at = place + offset + (0 if shift == "flags" else 2)
                damaged[at : at + 2] = value.to_bytes(2, "little")
    return bytes(damaged)


def _large(times: int) -> bytes:
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("small/raw/edges.txt", "w") as member,
    ):
        for _ in range(times):
            member.write(bytes(2**20))
    return stream.getvalue()


ANSWERS: dict[str, Send] = {
    "a page of HTML": respond(body=b"<!DOCTYPE html><html><body>Please log in</body></html>"),
    "nothing": respond(body=b""),
    "not found": respond(404, b"not found"),
    "an error of the server": respond(500, b"sorry"),
    "Content-Length: abc": respond(Content_Length="abc"),
    "Content-Length: -5": respond(Content_Length="-5"),
    "Content-Length: 10¹⁸": respond(Content_Length=str(10**18)),
    "Content-Length: ٣": _raw(lambda right: _OK + b"Content-Length: \xd9\xa3\r\n\r\n" + right),
    "half of it": _raw(lambda right: _OK + b"Content-Length: %d\r\n\r\n" % len(right) + right[: len(right) // 2]),
    "half of it, unannounced": _raw(lambda right: _OK + b"\r\n" + right[: len(right) // 2]),
    "more of it": _raw(lambda right: _OK + b"\r\n" + right + right),
    "a chunk without end": _raw(lambda right: _CHUNKED + b"ffffffff\r\n" + right),
    "a chunk of no size": _raw(lambda right: _CHUNKED + b"xyz\r\n" + right),
    "no HTTP": _raw(lambda right: b"hello\r\n\r\n"),
    "silence": _raw(lambda right: b""),
    "100,000 headers": _raw(lambda right: _OK + b"A: b\r\n" * 100_000 + b"\r\n" + right),
    "a header of a megabyte": _raw(lambda right: _OK + b"A: " + b"b" * 2**20 + b"\r\n\r\n" + right),
    "a redirect to a file": respond(302, b"", Location="file:///etc/passwd"),
    "a redirect to itself": respond(302, b"", Location="/again"),
    "a redirect to nowhere": respond(302, b"", Location="http://[::bad"),
    "zeros without end": _endless,
    "a stall": _stalling,
    "an encrypted archive": respond(body=_repacked(flags=1)),
    "an unknown compression": respond(body=_repacked(method=99)),
    "a member outside": respond(body=packed([("../../raw/edges.txt", RIGHT), ("small/raw/edges.txt", RIGHT)])),
    "an absolute member": respond(body=packed([("/tmp/raw/edges.txt", RIGHT), ("small/raw/edges.txt", RIGHT)])),
    "a member twice": respond(body=packed([("small/raw/edges.txt", RIGHT[::-1]), ("small/raw/edges.txt", RIGHT)])),
    "20,000 members": respond(body=packed([("small/raw/edges.txt", RIGHT), *((f"m{i}", b"") for i in range(20_000))])),
    "another archive": respond(body=OTHER),
    "128 MB in 128 kB": lambda handler, right: respond(body=_large(128))(handler, right),
}  # fmt: skip


class _Server:
    """A server on this machine that answers as it is told."""

    def __init__(self, send: Send, right: bytes) -> None:
        outer = self
        self.send, self.right = send, right

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with contextlib.suppress(OSError):  # who asked may have gone
                    outer.send(self, outer.right)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@dataclass(frozen=True)
class Download:
    """One download.

    Attributes:
        name: what is sent.
        send: sends it.
        archive: whether the file is published in an archive.
        pinned: whether its bytes are known, or the graph in them alone.
    """

    name: str
    send: Send
    archive: bool
    pinned: bool

    row = "downloads"
    seconds = 60.0
    together = 1

    @property
    def key(self) -> str:
        return (
            f"download/{'archive' if self.archive else 'file'}, {'pinned' if self.pinned else 'not pinned'}/{self.name}"
        )

    def prepare(self, folder: Path) -> None:
        """Nothing is needed but a cache."""

    def play(self, folder: Path) -> Verdict:
        """Fetch from the bad server, then from a good one."""
        right = ARCHIVE if self.archive else RIGHT
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        os.environ.pop("FOSSIL_DATA", None)
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            os.environ.pop(name, None)
        pin = Pin(hashlib.sha256(right).hexdigest(), len(right))
        # Over HTTP, because a server here has no certificate; that fetching itself takes HTTPS alone has its own test.
        fetch.open_address = lambda address: urllib.request.urlopen(address, timeout=_STALL)
        fetch.FILES = verify.FILES = {FILE: Pin(hashlib.sha256(RIGHT).hexdigest(), len(RIGHT))} if self.pinned else {}  # type: ignore[assignment]
        fetch.ARCHIVES = {"small.zip": pin} if self.pinned else {}  # type: ignore[assignment]
        server = _Server(self.send, right)
        origins = {FILE: f"{server.address}/{'small.zip' if self.archive else 'edges.txt'}"}
        first = self._fetch(origins)
        if first.outcome not in ("refused", "equal"):
            return first
        kept = [path for path in cache_root().rglob("*") if path.is_file()] if cache_root().exists() else []
        if first.outcome == "refused" and kept:
            return Verdict("silent", f"{kept[0].name} was kept: {first.detail}")
        server.send = respond()
        second = self._fetch(origins)
        return (
            first if second.outcome == "equal" else Verdict("silent", f"not mended by the right file: {second.detail}")
        )

    def _fetch(self, origins: dict[str, str]) -> Verdict:
        try:
            found = find_or_fetch("small", origins, _read)
        except FossilError as error:
            return Verdict("refused", str(error)[:400])
        except BaseException as error:
            return Verdict("traceback", where(error))
        return Verdict("equal" if found == RIGHT else "silent", "another content was read")


def _read(root: Path) -> bytes:
    """Read the file as a reader of the catalogue does, which knows what the graph is."""
    content = (root / FILE).read_bytes()
    if content != RIGHT:
        raise DataError(f"{root / FILE} is not the published graph.", remedy="Fetch it again.")
    return content


def cases(share: float) -> Iterator[Download]:
    """Yield every answer in every way, and damaged bodies."""
    ways = [(archive, pinned) for archive in (False, True) for pinned in (True, False)]
    if share == 1:
        yield from (Download(name, send, *way) for name, send in ANSWERS.items() for way in ways)
    for number in range(round(share * 200)):
        archive, pinned = ways[number % len(ways)]
        draw = random.Random(f"download {number}")
        trick = draw.choice(ZIP if archive else BYTES)
        body = trick.play(draw, ARCHIVE if archive else RIGHT, OTHER if archive else RIGHT[::-1])
        yield Download(f"{number:03d} {trick.name}", respond(body=body), archive, pinned)
