"""The numerical core, and which tests are asked about a file of it: the nearest first, because a failure ends a run.

Most of `tests/contracts` and all of `tests/journeys` only ask whether things work at all, and take long. They are not
asked: what they alone would notice counts as surviving.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PATTERNS = (
    "src/fossil/transport/*.py",
    "src/fossil/transport/solvers/*.py",
    "src/fossil/ops/*.py",
    "src/fossil/nn/*.py",
    "src/fossil/methods/*.py",
    "src/fossil/methods/fossil/*.py",
    "src/fossil/methods/fossil_channels/*.py",
    "src/fossil/evaluation/*.py",
    "src/fossil/evaluation/probes/*.py",
    "src/fossil/evaluation/tasks/*.py",
)
# No numbers, numbers of speed alone, or the sampling of subgraphs, which is random and has slow tests of its own.
_NOT_THE_CORE = {
    "src/fossil/ops/chunks.py",
    "src/fossil/ops/dispatch.py",
    "src/fossil/ops/distinct.py",
    "src/fossil/ops/precision.py",
    "src/fossil/ops/streams.py",
    "src/fossil/ops/subgraphs.py",
    "src/fossil/methods/base.py",
    "src/fossil/methods/registry.py",
    "src/fossil/methods/fossil/memory.py",
    "src/fossil/methods/fossil/settings.py",
    "src/fossil/methods/fossil_channels/settings.py",
}
CORE: tuple[str, ...] = tuple(
    file
    for pattern in _PATTERNS
    for file in sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
    if file not in _NOT_THE_CORE and not file.endswith("__init__.py")
)

_FOSSIL = (
    "tests/unit/methods/test_fossil.py",
    "tests/golden/test_fossil_paper_step.py",
    "tests/golden/test_fossil_released_loss.py",
)
_LEARNING = (
    "tests/contracts/test_method_contract.py::test_every_parameter_is_in_one_group_and_learns_from_some_objective"
)
_SOLVERS = (
    "tests/unit/transport/test_*.py",
    "tests/golden/test_bapg_acceptance.py",
    "tests/golden/test_transport*.py",
    "tests/properties/test_transport_properties.py",
    "tests/properties/test_feasible_properties.py",
)
# Patterns of files, with those of tests that use what is in them; each file has the first that fits.
_USED_BY: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("src/fossil/transport/pooled.py", ("tests/unit/methods/test_fossil.py",)),
    ("src/fossil/transport/*", ("tests/golden/test_conditional_gradient_against_pot.py", *_SOLVERS)),
    ("src/fossil/ops/bapg.py", ("tests/unit/ops/test_bapg_*.py", "tests/unit/ops/test_numba_bapg.py", *_SOLVERS)),
    ("src/fossil/ops/objective.py", _SOLVERS),
    ("src/fossil/ops/iteration.py", _SOLVERS),
    ("src/fossil/ops/scaling.py", ("tests/unit/ops/test_bapg_iterations.py", *_SOLVERS)),
    ("src/fossil/ops/proximal.py", (*_SOLVERS, "tests/unit/methods/test_gsc.py")),
    ("src/fossil/ops/affinities.py", ("tests/unit/ops/test_infonce.py", "tests/unit/nn/test_contrast.py")),
    ("src/fossil/ops/infonce.py", ("tests/unit/nn/test_contrast.py", *_FOSSIL)),
    ("src/fossil/ops/edges.py", ("tests/unit/nn/test_generators.py", "tests/unit/methods/test_bnll.py", *_FOSSIL)),
    ("src/fossil/ops/svd.py", ("tests/unit/methods/test_untrained.py",)),
    ("src/fossil/ops/*", ("tests/unit/nn/test_*.py", *_FOSSIL)),
    ("src/fossil/nn/*", ("tests/unit/methods/test_*.py", *_FOSSIL)),
    ("src/fossil/methods/fossil/*", (*_FOSSIL, _LEARNING, "tests/unit/runs/test_loop.py")),
    (
        "src/fossil/methods/fossil_channels/*",
        ("tests/unit/methods/test_fossil_channels.py", _LEARNING, "tests/unit/methods/test_fossil_memory.py"),
    ),
    ("src/fossil/methods/bgrl.py", ("tests/unit/methods/test_bnll.py", _LEARNING)),
    ("src/fossil/methods/*", (_LEARNING,)),
    (
        "src/fossil/evaluation/probes/*",
        ("tests/golden/test_probe_against_sklearn.py", "tests/unit/evaluation/test_*.py"),
    ),
    ("src/fossil/evaluation/*", ("tests/unit/evaluation/test_*.py", "tests/unit/report/test_scores_table.py")),
)


def seen_by(file: str) -> tuple[str, ...]:
    """Return the test files that can see a file of the core, the file's own first."""
    own = [f"tests/*/*/test_{Path(file).stem}.py", f"tests/*/*/test_{Path(file).stem}_*.py"]
    users = next((tests for pattern, tests in _USED_BY if fnmatch(file, pattern)), ())
    found = []
    for pattern in (*own, *users):
        files, colons, test = pattern.partition("::")
        found += [f"{path.relative_to(ROOT)}{colons}{test}" for path in sorted(ROOT.glob(files))]
    return tuple(dict.fromkeys(found))
