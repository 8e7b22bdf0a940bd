import hashlib
import io
import threading
import urllib.error
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fossil.datasets import archive, fetch, verify
from fossil.datasets.fetch import cache_root, find_or_fetch, open_address, where
from fossil.datasets.pins import Pin
from fossil.errors import DataError, FossilWarning

FILE = "Small/raw/numbers.txt"
RIGHT = b"1 2 3"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FOSSIL_DATA", raising=False)
    monkeypatch.setattr(fetch, "open_address", urllib.request.urlopen)  # which also takes file: and http:


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(fetch, "open_address", refuse)


@pytest.fixture
def published(tmp_path):
    path = tmp_path / "published.txt"
    path.write_bytes(RIGHT)
    return {FILE: path.as_uri()}


@pytest.fixture
def pinned(monkeypatch):
    """The file is known by its bytes."""
    pins = {FILE: Pin(hashlib.sha256(RIGHT).hexdigest(), len(RIGHT))}
    monkeypatch.setattr(fetch, "FILES", pins)
    monkeypatch.setattr(verify, "FILES", pins)


def just_the_root(root: Path) -> Path:
    return root


def numbers(root: Path) -> str:
    """Read the file, which must hold three numbers."""
    text = (root / FILE).read_text(errors="replace")
    if len(text.split()) != 3:
        raise DataError(f"{root / FILE} has no three numbers.")
    return text


def put(root, content=RIGHT):
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).write_bytes(content)
    return root


def cached_files():
    return sorted(str(path.relative_to(cache_root())) for path in cache_root().rglob("*") if path.is_file())


def test_download_goes_into_the_cache_once(published, monkeypatch):
    assert find_or_fetch("small", published, just_the_root) == cache_root()
    assert (cache_root() / FILE).read_bytes() == RIGHT
    monkeypatch.setattr(fetch, "open_address", None)
    assert find_or_fetch("small", published, just_the_root) == cache_root()


def test_nothing_but_the_file_is_left(published):
    find_or_fetch("small", published, numbers)
    assert cached_files() == [FILE]
    assert [path.name for path in cache_root().iterdir()] == ["Small"]


def test_data_root_comes_before_the_cache(tmp_path, published, monkeypatch, offline):
    put(cache_root())
    assert find_or_fetch("small", published, just_the_root) == cache_root()
    monkeypatch.setenv("FOSSIL_DATA", str(put(tmp_path / "variable")))
    assert find_or_fetch("small", published, just_the_root) == tmp_path / "variable"
    given = put(tmp_path / "given")
    assert find_or_fetch("small", published, just_the_root, data_root=given) == given


def test_without_a_network_the_files_to_bring_are_named(tmp_path, offline):
    (tmp_path / "data").mkdir()
    origins = {FILE: "https://example.org/numbers.txt", "Small/raw/edge.gz": "https://example.org/small.zip"}
    with pytest.raises(DataError, match="no route to host") as caught:
        find_or_fetch("small", origins, numbers, data_root=tmp_path / "data")
    assert f"{tmp_path}/data/{FILE}\n    from https://example.org/numbers.txt" in caught.value.remedy
    assert "raw/edge.gz in https://example.org/small.zip" in caught.value.remedy
    assert str(cache_root()) in caught.value.what


def test_download_can_be_forbidden(published):
    with pytest.raises(DataError, match="not allowed"):
        find_or_fetch("small", published, numbers, download=False)
    assert not cache_root().exists()


def test_missing_data_root_is_named(tmp_path, published, monkeypatch):
    with pytest.raises(DataError, match=r"data_root is .*absent"):
        find_or_fetch("small", published, numbers, data_root=tmp_path / "absent")
    monkeypatch.setenv("FOSSIL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"\$FOSSIL_DATA is .*nowhere"):
        find_or_fetch("small", published, numbers)


def test_where_looks_at_the_data_root_and_then_at_the_cache(tmp_path, published, monkeypatch):
    assert where(published) is None
    put(cache_root())
    assert where(published) == cache_root()
    monkeypatch.setenv("FOSSIL_DATA", str(put(tmp_path / "variable")))
    assert where(published) == tmp_path / "variable"
    assert where(published, put(tmp_path / "given")) == tmp_path / "given"
    assert where(published, tmp_path / "absent") == cache_root()


def test_where_wants_every_file_in_one_place_and_downloads_nothing(tmp_path, published):
    origins = {**published, "Small/raw/other.txt": next(iter(published.values()))}
    put(cache_root())
    other = tmp_path / "data" / "Small/raw/other.txt"
    other.parent.mkdir(parents=True)
    other.write_text("here")
    assert where(origins, tmp_path / "data") is None
    assert not (cache_root() / "Small/raw/other.txt").exists()


@pytest.mark.parametrize("wrong", ["/nowhere/at/all", "~no such user/data", "n" * 5000])
def test_where_does_not_mind_a_wrong_data_root(published, monkeypatch, wrong):
    monkeypatch.setenv("FOSSIL_DATA", wrong)
    assert where(published) is None
    with pytest.raises(DataError, match="is not a folder"):
        find_or_fetch("small", published, numbers)
    put(cache_root())
    assert where(published) == cache_root()


def test_broken_archive_is_reported(tmp_path):
    (tmp_path / "small.zip").write_bytes(b"not a zip")
    with pytest.raises(DataError, match="not a zip file"):
        find_or_fetch("small", {FILE: (tmp_path / "small.zip").as_uri()}, numbers)


def test_cache_that_cannot_be_made_is_reported(tmp_path, published, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match="Not a directory"):
        find_or_fetch("small", published, numbers)


# What a server can send.


class Answer(BaseHTTPRequestHandler):
    body, length, status, location = RIGHT, None, 200, None

    def do_GET(self):
        self.send_response(self.status)
        if self.location:
            self.send_header("Location", self.location)
        self.send_header("Content-Length", self.length if self.length is not None else str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    """Return what answers every request in one way, and gives its address."""
    servers = []

    def start(**answer):
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Given", (Answer,), answer))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


PAGE = b"<!DOCTYPE html><html><body>Sign in to the hotel's network</body></html>"
WRONG = {
    "a page": ({"body": PAGE}, "sent more than 5 bytes|did not send the published"),
    "nothing": ({"body": b""}, "it has 0 bytes, and the published file has 5|no three numbers"),
    "cut short": ({"body": RIGHT[:3]}, "it has 3 bytes|no three numbers"),
    "cut short against its word": ({"body": RIGHT[:3], "length": "5"}, "sent 3 of 5 bytes|IncompleteRead"),
    "another length than numbers": ({"length": "abc"}, "announced 'abc' bytes"),
    "a negative length": ({"length": "-5"}, "announced '-5' bytes"),
    "not found": ({"status": 404, "body": PAGE}, "Not Found"),
    "redirected for ever": ({"status": 302, "location": "/again", "body": b""}, "redirect"),
}


@pytest.mark.parametrize("known_by_its_bytes", [True, False])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_the_published_file_is_never_cached(serve, request, wrong, known_by_its_bytes):
    if known_by_its_bytes:
        request.getfixturevalue("pinned")
    answer, message = WRONG[wrong]
    with pytest.raises(DataError, match=message) as caught:
        find_or_fetch("small", {FILE: f"{serve(**answer)}/numbers.txt"}, numbers)
    assert caught.value.remedy.startswith("Bring these files")
    assert cached_files() == []


def test_a_flipped_bit_is_never_cached(serve, pinned):
    with pytest.raises(DataError, match="its SHA-256 is"):
        find_or_fetch("small", {FILE: f"{serve(body=b'1 2 2')}/numbers.txt"}, numbers)
    assert cached_files() == []
    assert find_or_fetch("small", {FILE: f"{serve()}/numbers.txt"}, numbers) == "1 2 3"


def test_a_body_without_end_is_not_waited_for(serve, monkeypatch):
    monkeypatch.setattr(fetch, "LARGEST_DOWNLOAD", 1000)
    with pytest.raises(DataError, match="sent more than 1 kB"):
        find_or_fetch("small", {FILE: f"{serve(body=bytes(1 << 22))}/numbers.txt"}, numbers)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x", "ftp://127.0.0.1/x", "file:///etc/hostname"])
def test_only_https_is_spoken(address):
    with pytest.raises(urllib.error.URLError, match="unknown url type"):
        open_address(address)


@pytest.mark.parametrize("location", ["http://127.0.0.1:9/x", "ftp://127.0.0.1/x"])
def test_a_redirect_away_from_https_is_refused(location):
    """Asked of the handler of redirects in the very opener: no certificate of this machine's own is trusted."""
    opened = []

    class Taken(urllib.request.HTTPSHandler):
        def https_open(self, request):
            opened.append(request.full_url)
            answer = urllib.request.addinfourl(io.BytesIO(), {"location": location}, request.full_url, 302)
            answer.msg = "Found"
            return answer

    real = urllib.request.HTTPSHandler
    urllib.request.HTTPSHandler = Taken
    try:
        with pytest.raises(urllib.error.URLError, match="unknown url type"):
            open_address("https://example.org/x")
    finally:
        urllib.request.HTTPSHandler = real
    assert opened == ["https://example.org/x"]


# Files that were there already.


@pytest.mark.parametrize("content", [b"1 2 2", b"", PAGE, RIGHT[:2]])
def test_a_poisoned_cache_heals_itself_and_says_so(serve, pinned, content):
    put(cache_root(), content)
    with pytest.warns(FossilWarning, match=r"numbers\.txt was not the published file .* fetched anew"):
        assert find_or_fetch("small", {FILE: f"{serve()}/numbers.txt"}, numbers) == "1 2 3"
    assert cached_files() == [FILE]
    assert find_or_fetch("small", {FILE: "https://nowhere.invalid/"}, numbers) == "1 2 3"


def test_a_cache_that_is_known_by_its_content_heals_too(serve):
    put(cache_root(), PAGE)
    with pytest.warns(FossilWarning, match="no three numbers"):
        assert find_or_fetch("small", {FILE: f"{serve()}/numbers.txt"}, numbers) == "1 2 3"


def test_a_poisoned_cache_without_a_network_is_one_message(pinned, offline):
    put(cache_root(), b"1 2 2")
    with pytest.raises(
        DataError, match=r"no route to host.*numbers\.txt is not the published file: its SHA-256"
    ) as caught:
        find_or_fetch("small", {FILE: "https://example.org/numbers.txt"}, numbers)
    assert str(cache_root() / FILE) in caught.value.remedy


def test_a_wrong_file_of_the_users_own_is_refused_and_left_alone(tmp_path, pinned, offline):
    put(cache_root())
    own = put(tmp_path / "own", b"1 2 2")
    with pytest.raises(DataError, match=r"own/Small/raw/numbers\.txt is not the published file") as caught:
        find_or_fetch("small", {FILE: "https://example.org/numbers.txt"}, numbers, data_root=own)
    assert "https://example.org/numbers.txt" in caught.value.remedy
    assert (own / FILE).read_bytes() == b"1 2 2"


# Archives.


def zipped(members, **how):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **how) as content:
        for name, body in members:
            content.writestr(name, body)
    return stream


def patched(stream, places):
    """Change bytes of every local and central header: `{offset: byte}` from where the flags are."""
    content = bytearray(stream.getvalue())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            for offset, byte in places.items():
                content[at + flags + offset] = byte
            at = content.find(signature, at + 1)
    return io.BytesIO(bytes(content))


GOOD = ("small/raw/numbers.txt", RIGHT)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        (lambda: zipped([(GOOD[0], bytes(1 << 22))], compression=zipfile.ZIP_DEFLATED), "unpacks to 4.2 MB"),
        (lambda: zipped([GOOD, GOOD]), "2 times raw/numbers.txt"),
        (lambda: zipped([GOOD, ("other/raw/numbers.txt", b"")]), "2 times raw/numbers.txt"),
        (lambda: zipped([GOOD, ("../evil", b"")]), "points outside it"),
        (lambda: zipped([GOOD, ("/evil", b"")]), "points outside it"),
        (lambda: zipped([GOOD, ("C:\\evil", b"")]), "points outside it"),
        (lambda: zipped([("small/raw/NUL", b"")]), "no raw/numbers.txt"),
        (lambda: zipped([("./", b""), ("/", b"")]), "points outside it|no raw/numbers.txt"),
        (lambda: patched(zipped([GOOD]), {0: 1}), "is encrypted"),
        (lambda: patched(zipped([GOOD]), {2: 77}), "compression method is not supported"),
    ],
)
def test_a_hostile_archive_is_one_message_and_writes_nothing(tmp_path, hostile, message):
    (tmp_path / "small.zip").write_bytes(hostile().getvalue())
    with pytest.raises(DataError, match=message):
        find_or_fetch("small", {FILE: (tmp_path / "small.zip").as_uri()}, numbers)
    assert cached_files() == []
    assert not list(tmp_path.rglob("evil"))


def test_an_archive_of_very_many_members_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    (tmp_path / "small.zip").write_bytes(zipped([GOOD, *((f"m{i}", b"") for i in range(3))]).getvalue())
    with pytest.raises(DataError, match="the archive has 4 members"):
        find_or_fetch("small", {FILE: (tmp_path / "small.zip").as_uri()}, numbers)


def test_device_names_in_an_archive_are_no_paths_of_ours(tmp_path):
    (tmp_path / "small.zip").write_bytes(zipped([GOOD, ("CON", b""), ("aux.txt", b""), ("dev/zero", b"")]).getvalue())
    assert find_or_fetch("small", {FILE: (tmp_path / "small.zip").as_uri()}, numbers) == "1 2 3"
    assert cached_files() == [FILE]


def test_a_flipped_bit_in_an_archive_is_never_cached(tmp_path, monkeypatch):
    content = zipped([GOOD]).getvalue()
    monkeypatch.setattr(fetch, "ARCHIVES", {"small.zip": Pin(hashlib.sha256(content).hexdigest(), len(content))})
    origins = {FILE: (tmp_path / "small.zip").as_uri()}
    (tmp_path / "small.zip").write_bytes(content.replace(b"numbers", b"mumbers", 1))
    with pytest.raises(DataError, match="did not send the published file: its SHA-256"):
        find_or_fetch("small", origins, numbers)
    (tmp_path / "small.zip").write_bytes(content)
    assert find_or_fetch("small", origins, numbers) == "1 2 3"
