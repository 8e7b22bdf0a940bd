import urllib.error
import urllib.request

import pytest

from fossil.datasets.fetch import cache_root, find_or_fetch, where
from fossil.errors import DataError

FILE = "Small/raw/numbers.txt"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FOSSIL_DATA", raising=False)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


@pytest.fixture
def published(tmp_path):
    path = tmp_path / "published.txt"
    path.write_text("1 2 3")
    return {FILE: path.as_uri()}


def put(root):
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).write_text("here")
    return root


def test_download_goes_into_the_cache_once(published, monkeypatch):
    root = find_or_fetch("small", published)
    assert root == cache_root()
    assert (root / FILE).read_text() == "1 2 3"
    monkeypatch.setattr(urllib.request, "urlopen", None)
    assert find_or_fetch("small", published) == root


def test_nothing_but_the_file_is_left(published):
    root = find_or_fetch("small", published)
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["numbers.txt"]


def test_data_root_comes_before_the_cache(tmp_path, published, monkeypatch, offline):
    put(cache_root())
    assert find_or_fetch("small", published) == cache_root()
    monkeypatch.setenv("FOSSIL_DATA", str(put(tmp_path / "variable")))
    assert find_or_fetch("small", published) == tmp_path / "variable"
    assert find_or_fetch("small", published, data_root=put(tmp_path / "given")) == tmp_path / "given"


def test_without_a_network_the_files_to_bring_are_named(tmp_path, offline):
    (tmp_path / "data").mkdir()
    origins = {FILE: "https://example.org/numbers.txt", "Small/raw/edge.gz": "https://example.org/small.zip"}
    with pytest.raises(DataError, match="no route to host") as caught:
        find_or_fetch("small", origins, data_root=tmp_path / "data")
    assert f"{tmp_path}/data/{FILE}\n    from https://example.org/numbers.txt" in caught.value.remedy
    assert "raw/edge.gz in https://example.org/small.zip" in caught.value.remedy
    assert str(cache_root()) in caught.value.what


def test_download_can_be_forbidden(published):
    with pytest.raises(DataError, match="not allowed"):
        find_or_fetch("small", published, download=False)
    assert not cache_root().exists()


def test_missing_data_root_is_named(tmp_path, published, monkeypatch):
    with pytest.raises(DataError, match=r"data_root is .*absent"):
        find_or_fetch("small", published, data_root=tmp_path / "absent")
    monkeypatch.setenv("FOSSIL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"\$FOSSIL_DATA is .*nowhere"):
        find_or_fetch("small", published)


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
        find_or_fetch("small", published)
    put(cache_root())
    assert where(published) == cache_root()


def test_truncated_download_leaves_no_file(published, monkeypatch):
    opened = urllib.request.urlopen

    def promise_more(*args, **kwargs):
        response = opened(*args, **kwargs)
        response.headers.replace_header("Content-Length", "99")
        return response

    monkeypatch.setattr(urllib.request, "urlopen", promise_more)
    with pytest.raises(DataError, match="sent 5 of 99 bytes"):
        find_or_fetch("small", published)
    assert not (cache_root() / FILE).exists()


def test_broken_archive_is_reported(tmp_path):
    (tmp_path / "small.zip").write_bytes(b"not a zip")
    with pytest.raises(DataError, match="not a zip file"):
        find_or_fetch("small", {FILE: (tmp_path / "small.zip").as_uri()})


def test_cache_that_cannot_be_made_is_reported(tmp_path, published, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match="Not a directory"):
        find_or_fetch("small", published)
