"""Runs on parts of a graph: when they are, what they say, and parts of vectors that are not made twice."""

from __future__ import annotations

import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse as sp

from fossil.errors import FossilError, GraphError, RunError, SettingError
from fossil.graph.graph import Graph
from fossil.methods.base import NodeVectors
from fossil.methods.fossil import FossilV2
from fossil.methods.fossil.inference import FossilInference
from fossil.methods.registry import get_method
from fossil.ops.ranks import Ranks
from fossil.runs import checkpoints, preparation
from fossil.runs import fit as fitting
from fossil.runs import run as running
from fossil.runs.conversion import convert
from fossil.runs.fit import fit
from fossil.runs.parts import read_parts, vectors_of, write_parts
from fossil.runs.plan import plan_run
from fossil.runs.run import Run
from fossil.sampling.few import few_of
from fossil.training.progress import Silent
from fossil.training.trainer import TrainingSettings

# Three epochs on a random graph leave λ where it may be; what that says about edges is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:.*(hardly uses the edges|collapsed)")

SMALL = {"hidden": 12, "width": 6, "num_anchors": 10, "subgraph_size": 4}


def graph() -> Graph:
    edges = np.triu(np.random.default_rng(0).random((60, 60)) < 0.2, 1)
    features = np.random.default_rng(1).random((60, 5), dtype=np.float32)
    return Graph("g", sp.csr_array((edges | edges.T).astype(np.float32)), features, np.arange(60))


class Heard(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.stages: dict[str, list[float]] = {}

    def stage(self, name: str, share: float) -> None:
        self.stages.setdefault(name, []).append(share)

    def notice(self, text: str) -> None:
        self.said.append(text)


def planned(out: Path | None = None, method: str = "fossil_v2", resume: bool = False, **training: Any) -> Any:
    settings = SMALL if method.startswith("fossil") else None
    wanted = {"epochs": 3, "device": "cpu"} | training
    return plan_run(graph(), method=method, settings=settings, training=wanted, out=out, resume=resume)


def test_a_run_on_samples_says_so_and_goes_on_as_one(tmp_path: Path) -> None:
    heard = Heard()
    result = fit(planned(tmp_path / "run", sampled="always", fan_out=2), heard)
    assert any("2 neighbours of a node at most" in line and "features" in line for line in heard.said)
    assert result.config.is_sampled and np.isfinite(result.vectors).all() and not (tmp_path / "run/parts").exists()
    longer = fit(planned(tmp_path / "run", resume=True, epochs=5, sampled="always", fan_out=2))
    straight = fit(planned(epochs=5, sampled="always", fan_out=2))
    np.testing.assert_array_equal(longer.vectors, straight.vectors)
    with pytest.raises(FossilError, match="fan_out was 2, is 3"):
        fit(planned(tmp_path / "run", resume=True, epochs=6, sampled="always", fan_out=3))


def test_samples_are_taken_where_the_whole_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not fit(planned()).config.is_sampled
    monkeypatch.setattr(preparation, "whole_bytes", lambda graph: 1 << 60)
    heard = Heard()
    assert fit(planned(), heard).config.is_sampled
    assert any("because the whole graph takes" in line for line in heard.said)
    for method, training, why, remedy in (
        ("muse", {}, "compare every node with all others", "--method bgrl, bnll"),
        ("fossil", {}, "node_contrast=all_nodes", "--method bgrl, bnll"),
        ("bgrl", {"sampled": "never"}, "told not to train on samples", "Leave --no-sampled out."),
        ("fossil_v2", {"sampled": "never"}, "told not to train on samples", "Leave --no-sampled out."),
    ):
        with pytest.raises(GraphError, match=f"needs the whole graph on cpu: .*{why}") as refused:
            fit(planned(method=method, **training))
        assert remedy in refused.value.remedy


def test_a_run_goes_on_as_it_began_though_there_is_more_memory_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(preparation, "whole_bytes", lambda graph: 1 << 60)
        straight = fit(planned(epochs=5)).vectors
        fit(planned(tmp_path / "run"))
    found = fit(planned(tmp_path / "run", resume=True, epochs=5))
    assert found.config.is_sampled
    np.testing.assert_array_equal(found.vectors, straight)
    for changed, said in (({"fan_out": 3}, "sampled was True, is False"), ({"sampled": "never"}, "sampled was True")):
        with pytest.raises(FossilError, match=said):
            fit(planned(tmp_path / "run", resume=True, epochs=6, **changed))


@pytest.mark.parametrize("short", [True, False])
def test_several_processes_take_the_same_steps_whichever_has_less_memory(
    monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    """Here one process of two: the other answers that it has less room, or enough."""
    kind, two, asked = FossilV2, Ranks(0, 2), list[int]()
    model = kind.build(kind.configure(None, SMALL), 5, 0)

    def all_reduce_max(ranks: Ranks, number: int) -> int:
        assert ranks is two
        asked.append(number)
        return max(number, int(short))

    monkeypatch.setattr(preparation, "all_reduce_max", all_reduce_max)
    training, device = TrainingSettings(device="cpu"), torch.device("cpu")
    found = preparation.prepare(model, graph(), training, device, two)
    assert found.is_sampled is short and asked == [0]
    assert not short or "does not fit beside another process" in found.describe(5)
    monkeypatch.setattr(preparation, "whole_bytes", lambda graph: 1 << 60)
    assert preparation.prepare(model, graph(), training, device, two).is_sampled and asked == [0, 1]


def test_processes_that_share_a_memory_take_samples_where_it_has_no_room_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is room for a step of one process, and not for those of two on one machine."""
    kind, training, device = FossilV2, TrainingSettings(device="cpu"), torch.device("cpu")
    model = kind.build(kind.configure(None, SMALL), 5, 0)
    needed = model.memory(model.prepare(graph(), device))
    monkeypatch.setattr(preparation, "free_memory", lambda device: int(1.5 * needed))
    monkeypatch.setattr(preparation, "all_reduce_max", lambda ranks, number: number)
    for co_located in (1, 2):
        found = preparation.prepare(model, graph(), training, device, Ranks(0, 2, co_located))
        assert found.is_sampled is (co_located == 2)
    assert f"takes {2 * needed / 2**30:,.1f} GiB in 2 processes" in found.describe(5)


def test_a_run_on_batches_says_how_many_nodes_a_step_is_around() -> None:
    for batch, said in ((7, "surroundings of 7 nodes"), (2_000, f"surroundings of {graph().num_nodes} nodes")):
        heard = Heard()
        fit(planned(method="dgi", epochs=1, sampled="always", batch_nodes=batch), heard)
        assert any(said in line for line in heard.said)


def test_methods_that_need_the_whole_graph_refuse_samples() -> None:
    for method in ("muse", "fossil", "fossil_channels"):
        with pytest.raises(SettingError, match="needs the whole graph"):
            fit(planned(method=method, sampled="always"))


@pytest.mark.parametrize("kept", [True, False], ids=["in a folder", "in memory"])
@pytest.mark.parametrize(
    ("method", "before"),
    [
        ("fossil_v2", {"first layer"}),
        ("fossil_channels_v2", {"first hop", "agreement", "layers"}),
        ("bnll", {"layer 1"}),
    ],
)
def test_embedding_in_parts_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, before: set[str], kept: bool
) -> None:
    monkeypatch.setattr(fitting, "ROWS", 25)
    heard = Heard()
    fit(planned(tmp_path / "run" if kept else None, method, sampled="always"), heard)
    assert sum("embedding: 60 nodes in parts of 25" in line for line in heard.said) == 1
    assert set(heard.stages) == before | {"vectors"}
    for shares in heard.stages.values():
        assert shares == sorted(shares) and shares[-1] == 1.0
    assert len(heard.stages["vectors"]) == 3


def test_what_an_embedding_keeps_of_all_nodes_is_gone_before_its_vectors_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []
    real = FossilV2.inference

    def noted(method: FossilV2, prepared: Any) -> Any:
        inference = real(method, prepared)
        made.append(weakref.ref(inference))
        return inference

    def read(folder: Path) -> Any:
        assert made and not any(one() for one in made)
        return read_parts(folder)

    monkeypatch.setattr(FossilV2, "inference", noted)
    monkeypatch.setattr(fitting, "read_parts", read)
    assert len(fit(planned(tmp_path / "run", sampled="always"))) == 60


@pytest.mark.parametrize(("sampled", "copies"), [("always", 3), ("never", 2)])
def test_a_disk_without_room_for_the_vectors_is_told_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampled: str, copies: int
) -> None:
    need, real, out = copies * 4 * 60 * SMALL["width"], shutil.disk_usage, tmp_path / "runs/new"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=need - 1))
    with pytest.raises(RunError, match=rf"60 vectors of 6 numbers take .*{need / 1000:.1f} kB in .*{need / 1000:.1f}"):
        fit(planned(out, sampled=sampled))
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=need))
    assert len(fit(planned(out, sampled=sampled))) == 60


def test_parts_that_are_there_need_no_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, real = tmp_path / "run", shutil.disk_usage
    with monkeypatch.context() as patched:
        patched.setattr(fitting, "save_tensors", lambda *_: raised(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(planned(out, sampled="always"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=2 * 4 * 60 * SMALL["width"]))
    assert len(fit(planned(out, resume=True, sampled="always"))) == 60


@pytest.mark.parametrize("method", ["fossil_v2", "fossil_channels_v2", "bgrl", "dgi", "grace"])
def test_checkpoints_of_large_weights_look_at_a_few_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """All nodes are embedded once: in the end."""
    asked: list[int] = []
    monkeypatch.setattr(checkpoints, "_SUSPICIOUS", 0.0)
    monkeypatch.setattr(checkpoints, "few_of", lambda store: few_of(store, 3))
    straight = fit(planned(method=method, sampled="always")).vectors
    look = checkpoints.fault_of
    monkeypatch.setattr(checkpoints, "fault_of", lambda *a: asked.append(len(a[2].vectors)) or look(*a))
    found = fit(planned(tmp_path / "run", method, sampled="always", checkpoint_seconds=0)).vectors
    assert len(asked) == 3 and max(asked) < 60
    np.testing.assert_array_equal(found, straight)


def test_a_checkpoint_whose_few_vectors_are_no_numbers_is_not_written(tmp_path: Path) -> None:
    trainer, plan, _ = fitting.make_trainer(planned(tmp_path, sampled="always"))
    kept = checkpoints.Checkpoints(tmp_path, plan.config.identity, plan.graph)
    trainer.run(1, lambda *_: False)
    kept.save(trainer, "")
    assert kept.epoch == 1
    with torch.no_grad():
        for weight in trainer.method.parameters():
            weight.fill_(1e30)
    trainer.steps = 2
    kept.save(trainer, "")
    assert kept.epoch == 1 and kept.keep_good(trainer) == 1


def written(folder: Path, whole: Graph) -> Path:
    """The graph as tables."""
    folder.mkdir()
    columns = "\n".join(f"{i},{','.join(map(str, row))}" for i, row in enumerate(whole.features.tolist()))
    (folder / "nodes.csv").write_text("id,a,b,c,d,e\n" + columns + "\n")
    pairs = zip(*whole.adjacency.nonzero(), strict=True)
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(f"{a},{b}" for a, b in pairs) + "\n")
    return folder


@pytest.mark.parametrize("method", ["fossil_v2", "fossil_channels_v2", "bnll"])
def test_a_sampled_run_embeds_another_graph_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    expected = fit(planned(tmp_path / "run", method, sampled="always")).vectors
    kind = get_method(method)
    monkeypatch.setattr(kind, "prepare", lambda *_: raised(AssertionError))  # never the whole graph
    np.testing.assert_allclose(Run.open(tmp_path / "run").embed(graph()).vectors, expected, rtol=1e-5, atol=1e-6)


def test_an_embedding_with_a_trained_run_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fossil.runs.parts.ROWS", 25)
    fit(planned(tmp_path / "run", sampled="always"))
    run, out, heard = Run.open(tmp_path / "run"), tmp_path / "vectors", list[str]()
    expected, made, vectors = run.embed(graph()).vectors, list[int](), FossilInference.vectors

    def told(inference: FossilInference, first: int, last: int) -> NodeVectors:
        made.append(first)
        return raised(KeyboardInterrupt) if len(made) == 2 else vectors(inference, first, last)

    monkeypatch.setattr(FossilInference, "vectors", told)
    with pytest.raises(KeyboardInterrupt):
        run.embed(graph(), out=out)
    assert [path.name for path in out.iterdir()] == ["parts"]
    other = replace(graph(), features=2 * graph().features)
    with pytest.raises(RunError, match="holds the beginning of another embedding"):
        run.embed(other, out=out)
    found = run.embed(graph(), out=out, progress=lambda stage, share: heard.append(stage)).vectors
    np.testing.assert_array_equal(found, expected)
    assert made == [0, 25, 25, 50] and set(heard) == {"first layer", "vectors"}
    assert not (out / "parts").exists() and (out / "about.json").exists()
    with pytest.raises(RunError, match="already holds vectors"):
        run.embed(other, out=out)
    assert not np.array_equal(run.embed(other, out=out, force=True).vectors, expected)


def test_vectors_whose_writing_was_killed_can_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(planned(tmp_path / "run"))
    run, out = Run.open(tmp_path / "run"), tmp_path / "vectors"
    with monkeypatch.context() as patched:
        patched.setattr(running, "write_json", lambda *_: raised(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run.embed(graph(), out=out)
    with pytest.raises(RunError, match="already holds vectors"):
        run.embed(graph(), out=out)
    assert len(run.embed(graph(), out=out, force=True)) == 60 and (out / "about.json").exists()


def test_a_folder_for_vectors_is_not_made_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(planned(tmp_path / "run"))
    monkeypatch.setattr(Run, "load_method", lambda *_: raised(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        Run.open(tmp_path / "run").embed(graph(), out=tmp_path / "vectors")
    assert not (tmp_path / "vectors").exists()


def test_a_graph_too_large_for_memory_is_embedded_in_parts_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {name: fit(planned(tmp_path / name, name)).vectors for name in ("fossil_v2", "muse")}
    monkeypatch.setattr(running, "whole_bytes", lambda graph: 1 << 60)
    found = Run.open(tmp_path / "fossil_v2").embed(graph()).vectors
    np.testing.assert_allclose(found, expected["fossil_v2"], rtol=1e-4, atol=1e-5)
    refused = {"muse": 10**15, "fossil_v2": 4 * 60 * SMALL["width"] - 1}
    for name, free in refused.items():
        monkeypatch.setattr(running, "free_host_memory", lambda free=free: free)
        with pytest.raises(RunError, match=r"Embedding g \(60 nodes\) with the run in .* does not fit in memory"):
            Run.open(tmp_path / name).embed(graph())


def test_new_nodes_of_a_run_on_a_converted_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path / "tables", graph())
    other = written(tmp_path / "others", replace(graph(), features=3 * graph().features + 1))
    convert(source, tmp_path / "disk")
    convert(other, tmp_path / "others disk")
    training = {"epochs": 2, "device": "cpu", "sampled": "always"}
    fit(plan_run(tmp_path / "disk", method="fossil_v2", settings=SMALL, training=training, out=tmp_path / "run"))
    run = Run.open(tmp_path / "run")
    for same in (tmp_path / "disk", source):
        np.testing.assert_allclose(run.embed(same).vectors, run.embeddings.vectors, rtol=1e-4, atol=1e-5)
    with pytest.raises(GraphError, match="converted by itself, and its columns are encoded otherwise"):
        run.embed(tmp_path / "others disk")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/nodes.csv").write_text("id,a,b,c,d,e\nnew,1,0,1,0,1\n")
    (tmp_path / "new/edges.csv").write_text("source,target\nnew,0\n")
    assert list(run.embed(tmp_path / "new", attach=True)) == ["new"]
    monkeypatch.setattr(running, "whole_bytes", lambda graph: 1 << 60)
    with pytest.raises(RunError, match=r"New nodes are joined to .* in memory, which takes .* are free") as refused:
        run.embed(tmp_path / "new", attach=True)
    assert "leave out --attach" in refused.value.remedy


class Inference:
    """Embeds each node by its number, and counts what it was asked for."""

    def __init__(self, broken_from: int = 10**9) -> None:
        self.asked: list[tuple[int, int]] = []
        self.broken_from = broken_from

    def vectors(self, first: int, last: int) -> NodeVectors:
        if first >= self.broken_from:
            raise KeyboardInterrupt
        self.asked.append((first, last))
        numbers = torch.arange(first, last).float()
        return NodeVectors(torch.stack([numbers, -numbers], 1), fusion=numbers, structure_share=numbers)


def test_a_stopped_embedding_goes_on_with_the_missing_parts(tmp_path: Path) -> None:
    ids, stopped, goes_on = np.array([f"n{i}" for i in range(25)]), Inference(broken_from=20), Inference()
    with pytest.raises(KeyboardInterrupt):
        write_parts(tmp_path, stopped, ids, "one", size=10)
    with pytest.raises(FossilError, match=r"part-00002\.npz is missing"):
        list(read_parts(tmp_path))
    write_parts(tmp_path, goes_on, ids, "one", size=10)
    assert stopped.asked == [(0, 10), (10, 20)] and goes_on.asked == [(20, 25)]
    found = list(read_parts(tmp_path))
    assert np.concatenate([part["ids"] for part in found]).tolist() == ids.tolist()
    assert torch.cat([vectors_of(part).vectors for part in found])[:, 0].tolist() == list(range(25))
    again = Inference()
    write_parts(tmp_path, again, ids, "another training", size=10)
    assert len(again.asked) == 3


@pytest.mark.parametrize("force", [False, True])
def test_what_a_kill_left_of_a_part_does_not_stand_in_the_way(tmp_path: Path, force: bool) -> None:
    training = {"epochs": 2, "device": "cpu", "sampled": "always", "fan_out": 2}
    straight = fit(planned(sampled="always", fan_out=2))
    out = tmp_path / "run"
    fit(planned(out, sampled="always", fan_out=2))
    (out / "summary.json").unlink()
    (out / "parts").mkdir()
    (out / "parts/.part-00000.npz.0123456789ab.part").write_bytes(b"half of it")
    (out / "parts/part-00007.npz").write_bytes(b"of another training")
    settings = {"settings": SMALL, "method": "fossil_v2", "training": training | {"epochs": 3}}
    again = fit(plan_run(graph(), out=out, resume=not force, force=force, **settings))
    np.testing.assert_array_equal(again.vectors, straight.vectors)
    assert not (out / "parts").exists() and (out / "summary.json").exists()


def test_parts_stay_until_all_else_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(fitting, "save_tensors", lambda *_: raised(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(planned(out, sampled="always"))
    assert (out / "parts/part-00000.npz").exists()
    monkeypatch.setattr(FossilV2, "inference", lambda *_: Inference(broken_from=0))  # nothing is left to embed
    assert len(fit(planned(out, resume=True, sampled="always"))) == 60
    assert not (out / "parts").exists()


def test_a_part_that_was_damaged_is_made_again_as_the_message_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setattr(fitting, "ROWS", 25)
    with monkeypatch.context() as patched:
        patched.setattr(fitting, "save_tensors", lambda *_: raised(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(planned(out, sampled="always"))
    part = out / "parts/part-00001.npz"
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(RunError, match=r"part-00001\.npz is damaged") as caught:
        fit(planned(out, resume=True, sampled="always"))
    assert caught.value.remedy.startswith("Delete that file and go on with --resume")
    part.unlink()
    np.testing.assert_array_equal(
        fit(planned(out, resume=True, sampled="always")).vectors, fit(planned(sampled="always")).vectors
    )


def raised(error: type[BaseException]) -> Any:
    raise error


def test_a_graph_on_disk_is_trained_on_as_the_one_in_memory(tmp_path: Path) -> None:
    whole = graph()
    source = written(tmp_path / "tables", whole)
    convert(source, tmp_path / "disk")
    training = {"epochs": 2, "device": "cpu", "sampled": "always", "fan_out": 2}
    for method in ("fossil_v2", "fossil_channels_v2", "bgrl", "bnll", "dgi", "grace"):
        settings = SMALL if method.startswith("fossil") else {"width": 6}
        found = [
            fit(plan_run(where, method=method, settings=settings, training=training | {"batch_nodes": 9})).vectors
            for where in (source, tmp_path / "disk")
        ]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)
