"""Large tables become a graph on disk: ids, columns, edges, both directions, features, manifest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import GraphError, SettingError
from fossil.graph.assemble import direction_done
from fossil.graph.blocks import blocks, index_dtype, mapped
from fossil.graph.csr import Csr
from fossil.graph.disk import ENCODING, FEATURE_TYPES, DiskGraph
from fossil.graph.findings import Finding, Treatment
from fossil.graph.folder import seal
from fossil.guard.boundary import exists
from fossil.guard.budget import free_host_memory, parse_bytes
from fossil.progress import StageProgress, silent
from fossil.readers.column import ColumnPlan
from fossil.readers.encoding import EncodingPlan
from fossil.readers.large import sorting
from fossil.readers.large.columns import LargePlan, plan_large
from fossil.readers.large.edges import SOURCE, TARGET, oddity, write_ends
from fossil.readers.large.features import Structure, write_features, write_structure, write_structure_alone
from fossil.readers.large.ids import IdLookup, id_column, write_ids
from fossil.readers.large.named import write_named
from fossil.readers.large.parts import PartTable, arrow, table_parts
from fossil.readers.large.stages import Stages, as_json, check_folder, check_room, from_json, identity, refuse_change
from fossil.readers.planning import ColumnChoices
from fossil.readers.read import check_size
from fossil.readers.structural_features import STRUCTURAL_NAMES, Ways
from fossil.storage import write_json, writing

_LEAST_MEMORY = 1 << 28
_COPIES = {"sort": 1, "reverse": 1, "directions": 2}  # of all edges, that a stage may write


@dataclass(frozen=True)
class Conversion:
    """What is to be converted, and how.

    Attributes:
        source: a folder with `nodes` and `edges`, or a node table; or edges alone, where features are made from them.
        out: the folder to write.
        edges: the edge table, or a folder of its parts.
        roles: what a column is, by name.
        label: the column of classes.
        treatment: what is done about oddities.
        name: what to call the graph.
        structural_features: add features made from the edges; a node table is then not needed.
        feature_type: float32 or float16.
        memory: bytes to use, in words such as `8GB`; half of what is free when None.
        force: replace what is in `out`; a graph stays there until the new one is whole.
    """

    source: Path
    out: Path
    edges: Path | None = None
    roles: Mapping[str, str] | None = None
    label: str | None = None
    treatment: Treatment | Mapping[str, Any] | None = None
    name: str | None = None
    structural_features: bool = False
    feature_type: str = "float32"
    memory: str | None = None
    force: bool = False

    def check(self) -> None:
        """Look at what can be looked at before anything is written.

        Raises:
            GraphError: the files are missing or have no columns, or a choice needs the whole graph in memory.
            SettingError: an unknown choice.
            RunError: something else stands in `out`, or a graph that may not be replaced.
        """
        arrow()
        _streamable(Treatment.of(self.treatment) or Treatment())
        if self.feature_type not in FEATURE_TYPES:
            raise SettingError(
                f"Features of type {self.feature_type!r} are not written.", remedy=f"Use {' or '.join(FEATURE_TYPES)}."
            )
        if not exists(self.source):
            raise GraphError(f"{str(self.source)!r} is no existing file or folder.", remedy="Check the spelling.")
        nodes, edges = self._tables(_memory(self.memory))
        _ = edges.names, None if nodes is None else nodes.names
        if nodes is None and (self.roles or self.label):
            raise GraphError("Columns are named, and there is no node table.", remedy="Leave out --column and --label.")
        check_folder(self.out, force=self.force)

    def _tables(self, memory: int) -> tuple[PartTable | None, PartTable]:
        return table_parts(self.source, self.edges, memory, alone=self.structural_features)

    def run(self, progress: StageProgress = silent) -> DiskGraph:
        """Convert the tables, or go on with a conversion that was stopped; nobody else may write to `out` meanwhile.

        Args:
            progress: is told which stage is at work and which share of it is done.

        Raises:
            GraphError: the tables are no graph that can be learnt from, with file and row; nothing is left of the
                conversion, which with this input and these choices leads nowhere.
            RunError: the folder cannot be used or is full; what was done is kept.
        """
        treatment = Treatment.of(self.treatment) or Treatment()
        memory = _memory(self.memory)
        nodes, edges = self._tables(memory // 4)
        choices = ColumnChoices(
            roles=self.roles or {},
            label=self.label,
            missing=treatment.missing,
            missing_indicator=treatment.missing_indicator,
        )
        name = self.name or (self.source if self.source.is_dir() else self.source.parent).resolve().name
        about = partial(
            identity,
            [*(() if nodes is None else nodes.parts), *edges.parts],
            {
                "name": name,
                "roles": dict(choices.roles),
                "label": self.label,
                "treatment": treatment.model_dump(),
                "structural_features": self.structural_features,
                "feature_type": self.feature_type,
            },
        )
        stages = Stages(self.out, about(), force=self.force)
        work = _Work(
            stages,
            nodes,
            edges,
            choices,
            treatment,
            name,
            self.structural_features,
            self.feature_type,
            memory,
            progress,
        )
        try:
            work.all(lambda: refuse_change(stages.folder, about()))
        except GraphError:
            stages.abandon()
            raise
        stages.end()
        return DiskGraph(self.out)


def _streamable(treatment: Treatment) -> Treatment:
    """Refuse what cannot be done batch by batch."""
    for setting in ("isolated", "zero_features"):
        if getattr(treatment, setting) == "drop":
            raise GraphError(
                f"--{setting.replace('_', '-')} drop would number the nodes anew after all edges are known, which a "
                "conversion does not do.",
                remedy="Keep or refuse such nodes, or leave them out of the node table.",
            )
    return treatment


def _memory(said: str | None) -> int:
    if said is not None:
        chosen = parse_bytes(said)
        if chosen is None or chosen < _LEAST_MEMORY:
            raise SettingError(
                f"--memory {said!r} is no amount of memory a conversion can work with.",
                remedy=f"Write it like 8GB; at least {_LEAST_MEMORY // 10**6} MB.",
            )
        return chosen
    return max(_LEAST_MEMORY, (free_host_memory() or 4 << 30) // 2)


@dataclass(frozen=True)
class _Work:
    """The stages, in their order."""

    stages: Stages
    nodes: PartTable | None
    edges: PartTable
    choices: ColumnChoices
    treatment: Treatment
    name: str
    structural: bool
    dtype: str
    memory: int
    progress: StageProgress

    def all(self, last_look: Callable[[], None]) -> None:
        """Do what is not done yet, and seal the folder."""
        folder, once = self.stages.folder, self.stages.once
        noted, large = self._planned()
        needed = self._feature_bytes(large)
        if not self.stages.is_done("features"):
            check_room(folder, needed, "The features")
        ends = once("edges", self._edges)
        # Both directions, and their union, which may be as large as both.
        copies = sum(each for stage, each in _COPIES.items() if not self.stages.is_done(stage))
        check_room(folder, copies * index_dtype(self._count).itemsize * ends["edges"], "The edges in both directions")
        forward = once("sort", self._sort)
        once("reverse", self._reverse)
        way = once("directions", self._directions)
        check_size(self.name, self._count, way["edges"])
        if self.structural:
            scaling = _plan_from_json(once("structure", self._structure)["plan"])
            large = replace(large, plan=replace(large.plan, structural=scaling))
        features = once("features", partial(self._features, large))
        findings = (
            *noted,
            *large.plan.notices(()),
            *from_json(features["findings"]),
            *large.findings,
            *(each for part in (ends, forward, way) for each in from_json(part["findings"])),
            *from_json(features["zeros"]),
        )
        self.progress("manifest", 0.0)
        last_look()
        self.stages.drop_arrays()  # who is stopped from here on leaves no more than records behind
        write_json(folder / ENCODING, large.plan.to_json())
        seal(
            folder,
            name=self.name,
            label_names=large.label_names,
            feature_names=(*large.plan.feature_names, *(column.name for column in large.plan.structural)),
            findings=findings,
            check=False,
            progress=partial(self.progress, "manifest"),
        )

    def _planned(self) -> tuple[tuple[Finding, ...], LargePlan]:
        """Write the ids, and decide how columns are encoded; also return what was noticed of the ids."""
        once = self.stages.once
        if self.nodes is None:
            once("ids", self._named_ids)
            found = Finding("nodes", self._count, "taken from the edges")
            return (found,), LargePlan(EncodingPlan((ColumnPlan("id", "id"),)), (), ())
        id_name, noted = id_column(self.nodes, self.choices)
        once("ids", partial(self._ids, self.nodes, id_name))
        return noted, _large_from_json(once("columns", partial(self._columns, self.nodes, id_name)))

    @property
    def _count(self) -> int:
        """N."""
        return len(mapped(self.stages.folder / "ids.npy"))

    def _id_of(self, row: int) -> str:
        return str(mapped(self.stages.folder / "ids.npy")[row])

    def _feature_bytes(self, large: LargePlan) -> int:
        columns = len(large.plan.feature_names) + len(STRUCTURAL_NAMES) * self.structural
        if columns == 0:
            raise GraphError(
                f"{self.name} has no features: no column is left to describe a node.",
                remedy="Add columns to the node table, or build features from the edges with --structural-features.",
            )
        return self._count * columns * np.dtype(self.dtype).itemsize

    def _named_ids(self) -> dict[str, Any]:
        return {"nodes": write_named(self.edges, self.stages.folder, partial(self.progress, "ids"))}

    def _ids(self, nodes: PartTable, id_name: str) -> dict[str, Any]:
        folder = self.stages.folder
        return {"nodes": write_ids(nodes, id_name, folder, self.stages.scratch, partial(self.progress, "ids"))}

    def _columns(self, nodes: PartTable, id_name: str) -> dict[str, Any]:
        ids, scratch = mapped(self.stages.folder / "ids.npy"), self.stages.scratch
        large = plan_large(nodes, id_name, ids, self.choices, scratch, partial(self.progress, "columns"))
        return {
            "plan": large.plan.to_json(),
            "label_names": list(large.label_names),
            "findings": as_json(large.findings),
        }

    def _edges(self) -> dict[str, Any]:
        scratch = self.stages.scratch
        edges, findings = write_ends(
            self.edges,
            IdLookup(self.stages.folder, scratch),
            self._count,
            self._id_of,
            self.treatment,
            self.name,
            scratch,
            partial(self.progress, "edges"),
        )
        return {"edges": edges, "findings": as_json(findings)}

    def _sort(self) -> dict[str, Any]:
        scratch = self.stages.scratch
        pairs = sorting.pairs_in(scratch / SOURCE, scratch / TARGET)
        progress = partial(self.progress, "sort")
        repeated = sorting.write_sorted(pairs, self._count, scratch, "forward", self.memory // 2, progress)
        refused = self.treatment.duplicates == "refuse"
        found = oddity(self.name, "duplicate edges", repeated.total, repeated.rows, self._id_of, "merged", refused)
        return {"findings": as_json(found)}

    def _reverse(self) -> dict[str, Any]:
        scratch, progress = self.stages.scratch, partial(self.progress, "reverse")
        forward = Csr.of(scratch, "forward")
        sorting.write_sorted(forward.reversed_pairs, self._count, scratch, "backward", self.memory // 2, progress)
        return {}

    def _directions(self) -> dict[str, Any]:
        """Write the edges as the treatment wants them; an undirected graph has one direction."""
        progress = partial(self.progress, "directions")
        progress(0.0)
        folder, scratch, direction = self.stages.folder, self.stages.scratch, self.treatment.direction
        forward, backward = (Csr.of(scratch, way) for way in ("forward", "backward"))
        alone = sorting.one_way(forward, backward, lambda share: progress(share / 2))
        done = direction_done(direction, alone.total, len(forward.indices))
        found = oddity(self.name, "edges without their reverse", alone.total, alone.rows, self._id_of, done, False)
        if alone.total and direction == "symmetrize":
            sorting.write_union(forward, backward, folder, "out", progress=lambda share: progress((1 + share) / 2))
        else:
            ways = ("backward", "forward") if direction == "reverse" else ("forward", "backward")
            self._take(ways[0], "out")
            if alone.total:
                self._take(ways[1], "in")
        found += self._isolated()
        progress(1.0)
        return {"edges": len(mapped(folder / "out_indices.npy")), "findings": as_json(found)}

    def _take(self, made: str, way: str) -> None:
        """Give arrays of the scratch folder their place, and keep them there for a stage that is done again."""
        for part in ("indptr", "indices"):
            path = self.stages.folder / f"{way}_{part}.npy"
            path.unlink(missing_ok=True)
            written = self.stages.scratch / f"{made}_{part}.npy"
            with writing(path):
                try:
                    path.hardlink_to(written)
                except OSError:  # a file system without links
                    shutil.copyfile(written, path)

    def _isolated(self) -> tuple[Finding, ...]:
        folder = self.stages.folder
        ways = [way for way in ("out", "in") if (folder / f"{way}_indptr.npy").exists()]
        count, first = 0, list[int]()
        for part in blocks(self._count):
            ends = [mapped(folder / f"{way}_indptr.npy")[part.start : part.stop + 1] for way in ways]
            lonely = np.flatnonzero(np.all([np.diff(end) == 0 for end in ends], axis=0))
            count += len(lonely)
            first += (part.start + lonely[: 20 - len(first)]).tolist()
        done = {"keep": "kept", "refuse": "refused"}[self.treatment.isolated]
        refused = self.treatment.isolated == "refuse"
        return oddity(self.name, "isolated nodes", count, first, self._id_of, done, refused)

    def _structure(self) -> dict[str, Any]:
        """Describe every node by the edges as they were written."""
        folder, scratch = self.stages.folder, self.stages.scratch
        out = Csr.of(folder, "out")
        into = Csr.of(folder, "in") if (folder / "in_indptr.npy").exists() else out
        sorting.write_union(out, into, scratch, "both", loops=False)
        ways = Ways(out, into, Csr.of(scratch, "both"))
        return {
            "plan": [asdict(column) for column in write_structure(ways, scratch, partial(self.progress, "structure"))]
        }

    def _features(self, large: LargePlan) -> dict[str, Any]:
        folder, ids = self.stages.folder, mapped(self.stages.folder / "ids.npy")
        progress = partial(self.progress, "features")
        structure = Structure(large.plan.structural, self.stages.scratch)
        findings = tuple[Finding, ...]()
        if self.nodes is None:
            zeros, first = write_structure_alone(structure, ids, folder, self.dtype, progress)
        else:
            findings, zeros, first = write_features(self.nodes, large, structure, ids, folder, self.dtype, progress)
        done = {"keep": "kept", "refuse": "refused"}[self.treatment.zero_features]
        refused = self.treatment.zero_features == "refuse"
        found = oddity(self.name, "zero feature rows", zeros, first, self._id_of, done, refused)
        return {"findings": as_json(findings), "zeros": as_json(found)}


def _plan_from_json(columns: Sequence[Mapping[str, Any]]) -> tuple[ColumnPlan, ...]:
    return EncodingPlan.from_json({"columns": columns, "sparse": False, "structural": []}).columns


def _large_from_json(value: Mapping[str, Any]) -> LargePlan:
    return LargePlan(EncodingPlan.from_json(value["plan"]), tuple(value["label_names"]), from_json(value["findings"]))
