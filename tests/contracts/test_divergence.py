"""Numbers that are none are never handed out and never written, whatever the method and wherever they arise."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fossil.errors import FossilWarning, RunError
from fossil.methods.registry import get_method, methods
from fossil.runs.embeddings import FitResult
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.runs.run import Run
from fossil.training.checkpoint import load_tensors, save_tensors

SOURCE = "csbm:nodes=40,features=6"
METHODS = sorted(methods())
TRAINED = [name for name in METHODS if get_method(name).trained]
RESULTS = ("embeddings.npz", "embeddings.parquet", "weights.safetensors", "summary.json")


def fitted(name: str, epochs: int = 2, rate: float | None = None, **asked: Any) -> FitResult:
    kind = get_method(name)
    known = kind.Config.model_fields
    settings = {key: value for key, value in kind.small.items() if key in known and not kind.Config.conditions(key)}
    if rate is not None:
        settings |= dict.fromkeys((key for key in known if "learning_rate" in key), rate)
    training = {"epochs": epochs if kind.trained else None, "device": "cpu", "checkpoint_seconds": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FossilWarning)
        return fit(plan_run(SOURCE, method=name, settings=settings, training=training, **asked))


def are_finite(found: Any) -> bool:
    parts = [found.vectors, *([] if found.fusion is None else [found.fusion]), *(found.channels or {}).values()]
    return all(np.isfinite(part).all() for part in parts)


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("rate", [1e6, 1e18, 1e30])
@pytest.mark.parametrize("name", TRAINED)
def test_a_training_that_diverges_hands_out_nothing(tmp_path: Path, name: str, rate: float, epochs: int) -> None:
    try:
        result = fitted(name, epochs, rate, out=tmp_path)
    except RunError as error:
        assert error.exit_status == 2 and "diverged" in error.what and "learning rates" in error.remedy
        assert not any((tmp_path / file).exists() for file in RESULTS)
        with pytest.raises(RunError, match="diverged"):
            fitted(name, epochs, rate)  # in memory alike
        if (tmp_path / "checkpoint.safetensors").exists():
            kept = load_tensors(tmp_path / "checkpoint.safetensors").about["epoch"]
            assert f"--epochs {kept} " in error.remedy
            assert are_finite(fitted(name, kept, rate, out=tmp_path, resume=True))
    else:
        assert are_finite(result) and are_finite(Run.open(tmp_path).embeddings)
        assert json.loads((tmp_path / "summary.json").read_text())["epochs"] == epochs


@pytest.mark.parametrize("digests", [True, False], ids=["this version", "earlier version"])
@pytest.mark.parametrize("name", METHODS)
def test_weights_that_are_no_numbers_embed_nothing(tmp_path: Path, name: str, digests: bool) -> None:
    fitted(name, out=tmp_path / "run")
    path = tmp_path / "run" / "weights.safetensors"
    content = load_tensors(path)
    floats = [key for key, value in content.tensors.items() if value.is_floating_point() and value.numel()]
    if not floats:
        pytest.skip("has no weights")
    content.tensors[floats[0]].view(-1)[0] = torch.nan
    save_tensors(path, content.tensors, content.about)
    if not digests:
        forget_digests(tmp_path / "run")
    run = Run.open(tmp_path / "run")
    for use in (run.load_method, lambda: run.embed(SOURCE, out=tmp_path / "vectors")):
        with pytest.raises(RunError, match="is not finite" if not digests else "not the file that this run wrote"):
            use()
    assert not (tmp_path / "vectors").exists()


def test_vectors_that_are_no_numbers_are_not_read(tmp_path: Path) -> None:
    fitted("dgi", out=tmp_path)
    with np.load(tmp_path / "embeddings.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    arrays["vectors"][3, 0] = np.inf
    np.savez(tmp_path / "embeddings.npz", **arrays)
    forget_digests(tmp_path)
    with pytest.raises(RunError, match=r"embeddings\.npz is not finite: the vectors of 1 of 40 nodes, the first '3'"):
        _ = Run.open(tmp_path).embeddings


def forget_digests(folder: Path) -> None:
    """Make a run look like one of an earlier version."""
    summary = json.loads((folder / "summary.json").read_text())
    summary.pop("files", None)
    summary.pop("sha256", None)
    (folder / "summary.json").write_text(json.dumps(summary))
