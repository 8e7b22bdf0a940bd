from __future__ import annotations

import json
import signal
import socket
import socketserver
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from small_server import ask, ask_raw, serving

from fossil.errors import GraphError, RunError
from fossil.explorer.asking import Query, RefusedError
from fossil.explorer.serving import ADDRESS, Answer, Server, as_json


def _fail(query: Query) -> Answer:
    raise ZeroDivisionError("secret of the inside \x1b[2J")


def _unknown(query: Query) -> Answer:
    raise GraphError("Node 'x' is not here.", remedy="Check the spelling.")


ROUTES = {
    "": lambda query: Answer(b"<!doctype html>", "text/html; charset=utf-8", "default-src 'self'"),
    "api/add": lambda query: as_json(query.number("a", 10) + query.number("b", 10)),
    "api/fail": _fail,
    "api/unknown": _unknown,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(ROUTES) as made:
        yield made


def test_the_page_and_the_answers_are_served_with_headers_that_keep_others_out(server: Server) -> None:
    page, answer = ask(server, ""), ask(server, "api/add?a=3&b=4")
    assert (page.status, page.body, page.headers["Content-Security-Policy"]) == (
        200,
        b"<!doctype html>",
        "default-src 'self'",
    )
    assert (answer.status, answer.json, answer.headers["Content-Type"]) == (200, 7, "application/json")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for reply in (page, answer, ask(server, "nowhere")):
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["X-Frame-Options"] == "DENY"
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert reply.headers["Server"].strip() == "fossil"
        assert "Access-Control-Allow-Origin" not in reply.headers


def test_it_listens_on_this_machine_alone(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    assert len(server.token) >= 24


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:PORT", "[::1]:PORT"],
)
def test_another_host_is_refused(server: Server, host: str) -> None:
    reply = ask(server, "api/add?a=1&b=1", Host=host.replace("PORT", str(server.server_port)))
    assert (reply.status, reply.json) == (403, {"error": "The request is for another host."})


def test_no_host_and_two_hosts_are_refused(server: Server) -> None:
    path, own = f"GET /{server.token}/ HTTP/1.0\r\n".encode(), f"Host: {server.hosts[0]}\r\n".encode()
    assert ask_raw(server, path + b"\r\n").status == 403
    assert ask_raw(server, path + own + b"Host: evil.example\r\n\r\n").status == 403
    assert ask_raw(server, path + own + b"\r\n").status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:PORT", ""])
def test_another_origin_is_refused(server: Server, origin: str) -> None:
    reply = ask(server, "api/add?a=1&b=1", Origin=origin.replace("PORT", str(server.server_port)))
    assert (reply.status, reply.json) == (403, {"error": "The request comes from another page."})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_that_another_site_asks_is_believed(server: Server, site: str) -> None:
    assert ask(server, "api/add?a=1&b=1", Sec_Fetch_Site=site).status == 403


def test_its_own_page_is_answered_under_both_names(server: Server) -> None:
    for name in server.hosts:
        headers = {"Host": name, "Origin": f"http://{name}", "Sec_Fetch_Site": "same-origin"}
        assert ask(server, "api/add?a=1&b=1", **headers).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/", "/api/add?a=1&b=1",
        "/TOKEN", "/TOKENx/", "/token/", "/TOKEN//", "/TOKEN/..", "/TOKEN/../", "/TOKEN/%2e%2e/",
        "/TOKEN/%2e%2e%2fetc%2fpasswd", "/TOKEN/../../../../etc/passwd", "/TOKEN/..\\..\\summary.json",
        "/TOKEN/summary.json", "/TOKEN/api/../", "/TOKEN/api", "/TOKEN/api/", "/TOKEN/API/ADD", "/TOKEN/api/add%00",
        "/TOKEN/api/add/", "/TOKEN/%61pi/add", "/TOKEN/file:///etc/passwd", "/\u00ff/",
    ],
)  # fmt: skip
def test_a_path_that_is_not_on_the_list_is_nothing(server: Server, path: str) -> None:
    target = path.replace("TOKEN", server.token).encode("latin-1")
    reply = ask_raw(server, b"GET " + target + f" HTTP/1.1\r\nHost: {server.hosts[0]}\r\n\r\n".encode())
    assert reply.status == 404 and reply.json["error"].startswith("There is nothing here")
    assert server.token.encode() not in reply.body


@pytest.mark.parametrize("target", ["http://evil.example/", "api/add", "*"])
def test_what_a_proxy_would_be_asked_is_refused(server: Server, target: str) -> None:
    reply = ask_raw(server, f"GET {target} HTTP/1.1\r\nHost: {server.hosts[0]}\r\n\r\n".encode())
    assert reply.status == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "CONNECT", "BREW"])
def test_only_get_is_answered(server: Server, method: str) -> None:
    reply = ask(server, "api/add?a=1&b=1", method)
    assert reply.status == 405
    assert method == "HEAD" or reply.json == {"error": "Only GET is answered."}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "a is missing."),
        ("a=1", "b is missing."),
        ("a=10&b=1", "a is no whole number from 0 to 9."),
        ("a=-1&b=1", "a is no whole number from 0 to 9."),
        ("a=1.5&b=1", "a is no whole number from 0 to 9."),
        ("a=%D9%A1&b=1", "a is no whole number from 0 to 9."),  # a digit, though not one of ours
        ("a=99999999999999&b=1", "a is longer than 12 characters."),
        ("a=1&a=2&b=1", "A name occurs twice in the query."),
        ("a=1&b", "The query is not of the form NAME=VALUE&NAME=VALUE in UTF-8."),
        ("a=%FF&b=1", "The query is not of the form NAME=VALUE&NAME=VALUE in UTF-8."),
        ("&".join(f"x{i}=1" for i in range(9)), "The query is not of the form NAME=VALUE&NAME=VALUE in UTF-8."),
    ],
)
def test_a_bad_query_is_told_what_is_accepted(server: Server, query: str, said: str) -> None:
    reply = ask(server, f"api/add?{query}")
    assert (reply.status, reply.json) == (400, {"error": said})


def test_a_huge_query_is_refused(server: Server) -> None:
    assert ask(server, f"api/add?a={'1' * 9000}").status == 414
    assert ask(server, f"api/add?a={'1' * 70_000}").status == 414
    assert ask(server, "api/add?a=1&b=1", X_Long="1" * 70_000).status == 431


def test_what_is_no_request_is_refused(server: Server) -> None:
    with socket.create_connection((ADDRESS, server.server_port), timeout=30) as stream:
        stream.sendall(b"\x16\x03\x01 <b>hello</b> there\r\n\r\n")
        assert json.loads(stream.makefile("rb").read()) == {"error": "Bad request version ('there')"}
    assert ask(server, "api/add?a=1&b=1").json == 2  # and the next is answered as ever


def test_what_the_library_refuses_is_said_and_a_fault_is_not_shown(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = ask(server, "api/unknown")
    assert (unknown.status, unknown.json) == (400, {"error": "Node 'x' is not here."})
    fault = ask(server, "api/fail")
    assert (fault.status, fault.json) == (500, {"error": "This is a fault of fossil-gnn."})
    assert "ZeroDivisionError: secret of the inside \\x1b[2J" in caplog.text  # which a terminal would obey


def test_a_port_in_use_is_named_and_two_servers_have_two_ports(server: Server) -> None:
    with pytest.raises(RunError, match=f"Port {server.server_port} of 127.0.0.1 is in use. Choose another port"):
        Server(server.server_port)
    with serving(ROUTES) as other:
        assert other.server_port != server.server_port and other.token != server.token
        assert ask(other, "api/add?a=1&b=2").json == 3
        assert ask_raw(other, f"GET /{server.token}/ HTTP/1.0\r\nHost: {other.hosts[0]}\r\n\r\n".encode()).status == 404
    with socket.create_server((ADDRESS, other.server_port)):
        pass  # the port is free again


def test_it_answers_while_others_keep_it_waiting_and_not_too_many_at_once() -> None:
    inside, most, seen, go = threading.Lock(), [0], [0], threading.Event()

    def wait(query: Query) -> Answer:
        with inside:
            seen[0] += 1
            most[0] = max(most[0], seen[0])
        go.wait(30)
        with inside:
            seen[0] -= 1
        return as_json("done")

    with serving({"wait": wait, "now": lambda query: as_json("now")}) as server:
        replies: list[object] = []
        askers = [threading.Thread(target=lambda: replies.append(ask(server, "wait").json)) for _ in range(15)]
        for each in askers:
            each.start()
        assert ask(server, "now").json == "now"
        further = [threading.Thread(target=lambda: replies.append(ask(server, "wait").json)) for _ in range(10)]
        for each in further:
            each.start()
        go.set()
        for each in [*askers, *further]:
            each.join()
        assert replies == ["done"] * 25 and most[0] <= 16


def test_a_refusal_has_a_status() -> None:
    assert RefusedError("no").status == 400


def test_numbers_and_texts_of_a_query() -> None:
    query = Query("rows=1,2,3&text=a%20b&empty=")
    assert query.numbers("rows", below=4, most=3) == [1, 2, 3]
    assert query.text("text", 3) == "a b" and query.text("empty", 3) == ""
    assert query.number("absent", below=5, default=4) == 4
    for name, below, most in (("rows", 3, 3), ("rows", 4, 2), ("text", 9, 9), ("empty", 9, 9)):
        with pytest.raises(RefusedError):
            query.numbers(name, below, most)


def test_a_large_answer_is_sent_in_pieces_so_that_each_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a connection may take is for each call of the system, however much is sent by it."""
    content, sent = np.arange(10**6, dtype="<f4"), list[int]()
    write = socketserver._SocketWriter.write

    def watched(stream: socketserver._SocketWriter, piece: bytes) -> int:
        sent.append(len(piece))
        return write(stream, piece)

    monkeypatch.setattr(socketserver._SocketWriter, "write", watched)
    answer = Answer(content.data.cast("B"), "application/octet-stream")
    with serving({"numbers": lambda query: answer}) as server:
        assert ask(server, "numbers").body == content.tobytes()
    assert max(sent) <= 2**16


def test_a_thread_that_cannot_be_started_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("fossil.explorer.serving._MOST_AT_ONCE", 1)
    monkeypatch.setattr(threading.Thread, "start", refused)
    with Server() as server:
        with pytest.raises(RuntimeError):
            server.process_request(None, None)
        assert server._slots.acquire(blocking=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_not_lost_in_code_that_lets_no_error_through(number: signal.Signals) -> None:
    class Silent:
        def __del__(self) -> None:  # whatever is raised in here, Python drops
            signal.raise_signal(number)

    class Struck(Server):
        rounds = 0

        def service_actions(self) -> None:
            self.rounds += 1
            if self.rounds == 1:
                Silent()
            super().service_actions()

    with Struck() as server:
        end = threading.Timer(20, server.shutdown)
        end.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                server.serve(ROUTES)
        finally:
            end.cancel()
        assert server.rounds == 1
