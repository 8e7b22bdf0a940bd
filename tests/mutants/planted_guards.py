"""Faults in what guards files, runs and memory: locks, digests, budgets, pins, and the one place that catches all."""

from __future__ import annotations

from fault import Planted

_LOCK = "src/fossil/runs/lock.py"
_RUN = "src/fossil/runs/run.py"
_FETCH = "src/fossil/datasets/fetch.py"
_ARCHIVE = "src/fossil/datasets/archive.py"
_BUDGET = "src/fossil/guard/budget.py"
_ARRAYS = "src/fossil/guard/arrays.py"
_PLAN = "src/fossil/runs/plan.py"
_TIED = ("tests/unit/runs/test_tied_files.py",)
_FETCHING = ("tests/unit/datasets/test_fetch.py",)
_WEIGHED = ("tests/unit/guard/test_budget.py", "tests/unit/guard/test_readers_budget.py")
_LAST_STEP = "tests/contracts/test_divergence.py::test_a_training_that_diverges_hands_out_nothing[dgi-1e+30-1]"
_EARLIER = ("tests/contracts/test_divergence.py::test_weights_that_are_no_numbers_embed_nothing[dgi-earlier version]",)
_EXPLAINED = "tests/journeys/test_bad_inputs.py::test_bad_input_is_explained_and_costs_nothing"
_PLANNED = ("tests/unit/runs/test_plan.py",)
_LARGE = "src/fossil/readers/large"
_ODD = ("tests/unit/readers/large/test_odd_tables.py",)
_STAGES = ("tests/unit/readers/large/test_stages.py",)
_CONTENT = ("tests/unit/graph/test_content.py",)
_SAMPLED_RUNS = ("tests/unit/runs/test_sampled_runs.py",)

GUARDS: tuple[Planted, ...] = (
    # Numbers that are none.
    Planted(
        "vectors that are not finite are written", "src/fossil/runs/fit.py",
        "    if fault is not None:", "    if False:", (_LAST_STEP,),
    ),
    Planted(
        "weights that are not finite are used", _RUN,
        "bad = first_not_finite(content.tensors)", "bad = None", _EARLIER,
    ),
    # Locks.
    Planted(
        "a lock that is held is taken for a file system without locks", _LOCK,
        "if error.errno in _BUSY:", "if False:", ("tests/unit/runs/test_lock.py",),
    ),
    Planted(
        "a lock file that stays", _LOCK,
        "            path.unlink()\n        os.close(descriptor)", "            pass\n        os.close(descriptor)",
        ("tests/unit/runs/test_lock.py",),
    ),
    # Files that are whole, and belong together.
    Planted(
        "a file takes its name before it is on the disk", "src/fossil/storage.py",
        "                os.fsync(stream.fileno())", "                pass", ("tests/unit/test_storage.py",),
    ),
    Planted(
        "the file of another run is read", _RUN,
        "if self._digests and self._digests.get(name) != sha256(path):", "if False:", _TIED,
    ),
    Planted(
        "more ids than vectors", _RUN,
        'if arrays["vectors"].ndim != 2 or any(shape != (nodes,) for shape in shapes):',
        'if arrays["vectors"].ndim != 2:', _TIED,
    ),
    Planted(
        "a checkpoint that changed is gone on from", "src/fossil/training/checkpoint.py",
        "if digest is not None and digest != _digest(tensors, about):", "if False:",
        ("tests/unit/training/test_checkpoint.py",),
    ),
    Planted(
        "a damaged line of the history drops what follows", "src/fossil/training/history.py",
        "if (record is None and number < len(lines)) or not follows:", "if not follows:",
        ("tests/unit/training/test_history.py",),
    ),
    Planted(
        "a history behind a link to nothing begins anew", "src/fossil/training/history.py",
        "if self.path.is_symlink():", "if False:", _TIED,
    ),
    Planted(
        "a folder that holds a run is taken without a word", "src/fossil/runs/folder.py",
        '    if not force:\n        raise RunError(\n            f"{path} already holds a run."',
        '    if False:\n        raise RunError(\n            f"{path} already holds a run."',
        (f"{_EXPLAINED}[an output folder that holds a run]",),
    ),
    Planted(
        "another number of threads goes unsaid", "src/fossil/runs/resume.py",
        "    if before == now:\n        return\n    differ", "    if True:\n        return\n    differ",
        ("tests/unit/runs/test_fit.py",),
    ),
    # Memory.
    Planted("a small file takes what it likes", _BUDGET, "if need > allowed:", "if False:", _WEIGHED),
    Planted(
        "a file takes more than is free", _BUDGET, "if free is not None and need > free:", "if False:", _WEIGHED,
    ),
    Planted(
        "a shape that the file does not hold", _ARRAYS, "if count < 0 or stated != held:", "if count < 0:", _WEIGHED,
    ),
    Planted(
        "arrays of a file weighed one by one", _ARRAYS, "self._taken += _checked", "self._taken = _checked", _WEIGHED,
    ),
    Planted(
        "weights are not counted before they are made", _PLAN,
        "    need += (4 if kind.trained else 1) * _weight_bytes(",
        "    _ = (4 if kind.trained else 1) * _weight_bytes(", _PLANNED,
    ),
    Planted(
        "weights of DSSL cannot be counted", "src/fossil/methods/dssl.py",
        'torch.randint(1 << 62, (), device="cpu")', "torch.randint(1 << 62, ())", _PLANNED,
    ),
    Planted(
        "classes that are years counted from 0", "src/fossil/readers/arrays.py",
        "numbers = np.searchsorted(codes, whole)", "numbers = whole", ("tests/unit/readers/test_labels.py",),
    ),
    # Downloads.
    Planted(
        "any file of the right size is the published one", "src/fossil/datasets/verify.py",
        "if found == pin.sha256", "if True", _FETCHING,
    ),
    Planted(
        "a poisoned cache is read", _FETCH, "if not missing and not wrong:", "if not missing:", _FETCHING,
    ),
    Planted(
        "files come over HTTP", _FETCH,
        "urllib.request.UnknownHandler(),", "urllib.request.HTTPHandler(), urllib.request.UnknownHandler(),", _FETCHING,
    ),
    Planted("an archive of any size", _ARCHIVE, "if unpacked > MOST_TIMES * size:", "if False:", _FETCHING),
    Planted("an archive of any number of members", _ARCHIVE, "if len(members) > MOST_MEMBERS:", "if False:", _FETCHING),
    Planted(
        "a member that points outside its archive", _ARCHIVE, "            _check_name(member.filename)",
        "            pass", _FETCHING,
    ),
    # Large graphs.
    Planted(
        "a NUL behind an id is left out", "src/fossil/graph/lookup.py",
        ' and text[-1:] != "\\0"', " and True", ("tests/unit/graph/test_disk.py",),
    ),
    Planted(
        "one long id makes all keys as wide", "src/fossil/graph/lookup.py", "if len(text) <= width and", "if", _ODD,
    ),
    Planted(
        "wide ids are written a batch at a time", f"{_LARGE}/ids.py",
        "blocks(len(given), rows_at_once(dtype.itemsize))", "blocks(len(given))", _ODD,
    ),
    Planted(
        "all rows that repeat are kept", "src/fossil/graph/lookup.py",
        "np.sort(np.concatenate([found, again]))[:20]", "np.sort(np.concatenate([found, again]))",
        ("tests/unit/graph/test_disk.py",),
    ),
    Planted(
        "a node table without columns has no rows", f"{_LARGE}/features.py", "or [plan.columns[0].name]", "or []", _ODD,
    ),
    Planted(
        "nodes without a feature go unnoticed", f"{_LARGE}/features.py", "zeros.add(block, part.start)", "pass", _ODD,
    ),
    Planted("every header is one line", f"{_LARGE}/texts.py", "skip_rows=header.lines", "skip_rows=1", _ODD),
    Planted(
        "a folder is a conversion's by its name", f"{_LARGE}/stages.py",
        "if name in content and is_ours(folder / name)", "if name in content", _STAGES,
    ),
    Planted(
        "what tells whose a folder is goes first", f"{_LARGE}/stages.py", "key=lambda entry: entry.name == _IDENTITY",
        "key=lambda entry: entry.name != _IDENTITY", _STAGES,
    ),
    Planted(
        "a kill at the end leaves all arrays", f"{_LARGE}/convert.py", "self.stages.drop_arrays()", "pass", _STAGES,
    ),
    Planted(
        "a direction that is missing is made up", "src/fossil/graph/content.py",
        "if found[0] != found[1]:", "if False:", _CONTENT,
    ),
    Planted(
        "rows in any order are sealed", "src/fossil/graph/content.py",
        "(listed[1:] <= listed[:-1]) & (row[1:] == row[:-1])", "(listed[1:] < listed[:-1]) & (row[1:] == row[:-1])",
        _CONTENT,
    ),
    Planted(
        "a run goes on as memory happens to be", "src/fossil/runs/fit.py",
        "return _on_samples(plan) if all_reduce_max(ranks, int(begun)) else plan", "return plan", _SAMPLED_RUNS,
    ),
    Planted(
        "processes train what each was told", "src/fossil/runs/fit.py", "if not all_say(ranks, mine):", "if False:",
        ("tests/distributed/test_together.py::test_processes_that_were_told_different_things_end_with_one_message[fan-out]",),
    ),
    Planted(
        "processes lose patience with the first one's work", "src/fossil/training/distributed.py",
        "_WORK_ALONE = timedelta(days=30)", "_WORK_ALONE = timedelta(seconds=2)",
        ("tests/distributed/test_together.py::test_what_the_first_process_does_alone_may_take_longer_than_an_answer",),
    ),
    Planted(
        "parts of other vectors are replaced unasked", "src/fossil/runs/parts.py",
        'if found is not None and found["identity"] != identity:', "if False:", _SAMPLED_RUNS,
    ),
    Planted(
        "a union is begun without room", "src/fossil/sampling/store.py",
        "dtype.itemsize * least + 16 * (graph.num_nodes + 1)", "0", ("tests/unit/sampling/test_store.py",),
    ),
    Planted(
        "what is made of edges is on disk", "src/fossil/training/placement.py",
        'if name == "edges" and mapped < size:', "if False:", ("tests/unit/training/test_placement.py",),
    ),
    # Messages.
    Planted(
        "only errors that were foreseen become a message", "src/fossil/guard/boundary.py",
        "except Exception as error:  # see the head of this file", "except ValueError as error:",
        ("tests/unit/guard/test_boundary.py",),
    ),
    Planted(
        "marks that turn the writing round are shown", "src/fossil/printable.py",
        '_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")', '_UNSAFE = ("Cc", "Cs", "Zl", "Zp")',
        ("tests/unit/test_printable.py",),
    ),
)  # fmt: skip
