import os
import random
import shutil
from functools import reduce
from operator import xor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.datasets.catalog import CATALOG, load
from fossil.datasets.fetch import is_address
from fossil.datasets.pins import ARCHIVES, CONTENT, FILES
from fossil.datasets.verify import content_digest
from fossil.errors import DataError
from fossil.graph.assemble import RawGraph

# As Yuehhua's GraphMLDatasets.jl has it for the 24 files of Planetoid: DataDeps.jl takes the exclusive or of several.
PLANETOID = 0xF52B3D47F5993912D7509B51E8090B6807228C4BA8C7D906F946868005C61C18
ENTRIES = [entry for entry in CATALOG.values() if entry.origins]
needs_data = pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_everything_in_the_catalogue_is_known_and_comes_over_https(entry):
    for file, origin in entry.origins.items():
        assert not is_address(origin) or origin.startswith("https://")
        by_bytes = file in FILES or origin.rpartition("/")[2] in ARCHIVES
        assert by_bytes or entry.name in CONTENT, file


def test_pins_have_the_form_of_pins():
    for pin in (*FILES.values(), *ARCHIVES.values()):
        assert len(bytes.fromhex(pin.sha256)) == 32
        assert pin.size is None or pin.size > 0
    assert all(len(bytes.fromhex(digest)) == 32 for digest in CONTENT.values())


def test_the_pins_of_planetoid_are_those_that_another_project_checks():
    pins = [int(pin.sha256, 16) for file, pin in FILES.items() if file.startswith("Planetoid/")]
    assert len(pins) == 24
    assert reduce(xor, pins) == PLANETOID


def copied(name, folder):
    """Copy the files of a graph, so that they can be spoilt; return their paths."""
    source, paths = Path(os.environ["FOSSIL_DATA"]), []
    for file in CATALOG[name].files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, folder / file)
        paths.append(folder / file)
    return paths


def flipped(content, random):
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]


DAMAGE = {
    "a bit flipped": flipped,
    "cut short": lambda content, random: content[: random.randrange(len(content))],
    "longer": lambda content, random: content + b"\n",
    "a page": lambda content, random: b"<!DOCTYPE html>" + content[15:],
}


@needs_data
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", ["cora", "actor", "chameleon_filtered"])
def test_no_damage_goes_unnoticed(tmp_path, name, how):
    chance = random.Random(f"{name} {how}")
    for path in copied(name, tmp_path):
        whole = path.read_bytes()
        for _ in range(6):
            path.write_bytes(DAMAGE[how](whole, chance))
            with pytest.raises(DataError, match=f"{path.name} is not the published file"):
                load(name, data_root=tmp_path, download=False)
        path.write_bytes(whole)
    assert load(name, data_root=tmp_path, download=False).num_nodes == CATALOG[name].counts.nodes


@needs_data
@pytest.mark.parametrize("name", ["amazon_photo", "coauthor_cs"])
def test_a_graph_in_other_bytes_is_accepted_and_other_content_is_not(tmp_path, name):
    (path,) = copied(name, tmp_path)
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **{**arrays, "attr_data": arrays["attr_data"].astype(np.float64)})
    load(name, data_root=tmp_path, download=False)
    labels = arrays["labels"].copy()
    labels[0] = (labels[0] + 1) % (labels.max() + 1)
    np.savez(path, **{**arrays, "labels": labels})
    with pytest.raises(DataError, match=f"has the size of {name} and other content"):
        load(name, data_root=tmp_path, download=False)
    # The checksums of its members are right, and its content is not.
    np.savez(path, **{**arrays, "attr_indices": arrays["attr_indices"][::-1]})
    with pytest.raises(DataError, match=f"{name}|cannot be read"):
        load(name, data_root=tmp_path, download=False)


def raw(**other):
    parts = {
        "source": np.array([0, 1, 2]),
        "target": np.array([1, 2, 0]),
        "features": np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]),
        "ids": np.arange(3),
        "labels": np.array([0, 1, 0]),
    }
    return RawGraph("raw", **(parts | other))


def test_the_digest_is_of_the_graph_and_not_of_its_storage():
    same = raw(
        source=np.array([2, 1, 0, 0], np.int32),
        target=np.array([0, 2, 1, 1], np.int16),
        features=sp.csr_array(raw().features.astype(np.float32)),
        labels=np.array([0, 1, 0], np.int8),
        findings=("something",),
    )
    assert content_digest(raw()) == content_digest(same)
    others = [
        raw(target=np.array([1, 2, 1])),
        raw(features=np.array([[1.0, 0.0], [0.0, 2.5], [0.0, 0.0]])),
        raw(features=np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])),
        raw(labels=np.array([0, 1, 1])),
        raw(labels=None),
        raw(ids=np.array([0, 1, 3])),
        raw(published_splits={"public": np.array([[0, 1, 2]])}),
    ]
    assert len({content_digest(each) for each in [raw(), *others]}) == 1 + len(others)
