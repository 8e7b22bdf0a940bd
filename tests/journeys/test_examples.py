"""The example scripts do what they say, in a process of their own and an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import environment

EXAMPLES = Path(__file__).parents[2] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"


def start_example(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def run_example(name: str, *arguments: str, cwd: Path) -> str:
    done = start_example(name, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seed", ["0", "1"])
def test_most_nodes_of_the_altered_copy_are_found_again(tmp_path: Path, seed: str) -> None:
    said = run_example("match_two_graphs.py", "--out", "matching.png", "--seed", seed, cwd=tmp_path)
    shares = {float(alpha): int(share) for alpha, share in re.findall(r"^alpha (\S+) .*\((\d+)%\)", said, re.MULTILINE)}
    assert shares[0.25] >= 90
    # Attributes and structure together tell more than either alone.
    assert shares[0.25] > max(shares[0.0], shares[1.0])
    assert (tmp_path / "matching.png").read_bytes().startswith(PNG)
    assert [path.name for path in tmp_path.iterdir()] == ["matching.png"]


def test_the_demo_embeds_scores_and_draws(tmp_path: Path) -> None:
    said = run_example("demo.py", "--out", "demo-run", "--epochs", "2", cwd=tmp_path)
    with np.load(tmp_path / "demo-run" / "embeddings.npz") as stored:
        assert stored["vectors"].shape == (1797, 5 * (64 + 64))
    assert (tmp_path / "demo-run" / "map.png").read_bytes().startswith(PNG)
    accuracy = re.search(r"FOSSIL with channels\s+│\s+([\d.]+) %", said)
    assert accuracy is not None, said
    assert float(accuracy[1]) > 50  # one in ten is chance
    run_example("demo.py", "--epochs", "1", cwd=tmp_path)  # its own folder may be replaced


def test_the_demo_replaces_no_other_run_unless_told_to(tmp_path: Path) -> None:
    for name, file in (("mine", "config.yaml"), ("thesis", "thesis.csv")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("the only copy")
        done = start_example("demo.py", "--out", name, "--epochs", "1", cwd=tmp_path)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert f"error: {name} " in done.stderr and "remedy: " in done.stderr
        assert (tmp_path / name / file).read_text() == "the only copy"
    run_example("demo.py", "--out", "mine", "--epochs", "1", "--force", cwd=tmp_path)
    assert (tmp_path / "mine" / "embeddings.npz").exists()
