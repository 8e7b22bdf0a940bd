"""Fit a method to a graph, in memory or into a run folder that can be continued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fossil.errors import GraphError, RunError, SettingError
from fossil.graph.blocks import blocks
from fossil.graph.graph import Graph
from fossil.methods.base import Method, NodeVectors
from fossil.methods.chunks import join_chunks
from fossil.methods.registry import Kind
from fossil.ops.memory import free_memory
from fossil.ops.ranks import ALONE, Ranks
from fossil.progress import CountProgress
from fossil.runs.checkpoints import Checkpoints
from fossil.runs.config import RunConfig
from fossil.runs.embeddings import FitResult, as_arrays, fault_of
from fossil.runs.folder import (
    check_disk,
    claim_folder,
    digests,
    holds_run,
    sealed,
    withdraw_results,
    withdraw_summary,
    write_embeddings,
    write_inputs,
)
from fossil.runs.lock import locked
from fossil.runs.loggers.base import Logger
from fossil.runs.loggers.logs import Logs
from fossil.runs.loop import train, train_worker
from fossil.runs.parts import PARTS, ROWS, read_parts, remove_parts, vectors_of, weights_digest, write_parts
from fossil.runs.plan import Plan
from fossil.runs.preparation import Prepared, check_whole, prepare
from fossil.runs.resume import resume_training
from fossil.runs.summary import or_released, summarize
from fossil.settings import Settings
from fossil.storage import write_json
from fossil.training.capabilities import Divides, LayerwiseInference, TrainsOnSamples, lack_of_memory_as, step_memory
from fossil.training.checkpoint import save_tensors
from fossil.training.devices import environment, resolve_device
from fossil.training.distributed import all_reduce_max, all_say
from fossil.training.divergence import DivergedError
from fossil.training.history import History
from fossil.training.progress import Reporter, Silent
from fossil.training.trainer import Trainer


def fit(
    plan: Plan, reporter: Reporter | None = None, loggers: Sequence[Logger] = (), ranks: Ranks = ALONE
) -> FitResult:
    """Train a method on a graph and embed its nodes.

    Args:
        plan: what is to be done.
        reporter: told what training takes, and about every epoch.
        loggers: other programs that show how it goes; one that fails is warned of, and training goes on.
        ranks: the processes that train, of which this one leads; the others call `fit_worker` with an equal plan.

    Raises:
        GraphError: the method cannot treat the graph.
        SettingError: the settings take more memory than there is, a logger cannot be used, or so many processes
            cannot train the method.
        RunError: the folder cannot be used, training diverged, or it was interrupted (the state is saved).
    """
    out = plan.out
    if out is not None:
        holds_run(out)  # where something else stands there, not even a lock is left
    _check_loggers(plan.kind, loggers, out)
    trainer, plan, how = make_trainer(plan, ranks)
    kind, graph, config = plan.kind, plan.graph, plan.config
    model, prepared, device = trainer.method, trainer.prepared, trainer.random.device
    reporter = Logs(reporter or Silent(), loggers, config, out)
    if how.is_sampled:
        reporter.notice(how.describe(config.training.fan_out))
    _check_memory(model, prepared, graph, device, reporter, ranks)
    if out is not None:
        columns = kind.vector_columns(config.settings, graph.num_features)
        check_disk(out, graph.num_nodes, columns, in_parts=how.is_sampled, force=plan.force)
    history = History(None if out is None else out / "history.jsonl")
    checkpoints = Checkpoints(out, config.identity, graph)

    with nullcontext() if out is None else locked(out), reporter:
        if out is not None:
            if claim_folder(out, resume=plan.resume, force=plan.force):
                resume_training(out, config, trainer, history, checkpoints)
                (withdraw_results if trainer.steps < plan.epochs else withdraw_summary)(out)
            write_inputs(out, config, environment(device, ranks.world_size), graph, plan.loaded.plan)
        try:
            train(trainer, plan, history, checkpoints, reporter)
            encoded = _embedded(trainer, plan, reporter, in_parts=how.is_sampled)
        except DivergedError as error:
            raise _with_remedy(error, plan, trainer, checkpoints) from error
        vectors, fusion, channels = as_arrays(encoded)
        result = FitResult(
            graph.ids, vectors, fusion, graph, model, config, history.records, channels=channels, path=out
        )
        summary = summarize(result, encoded, plan.epochs, config.preset)
        if not kind.trained:  # no record of an epoch has the time
            summary["seconds"] = round(history.elapsed, 4)
        if out is not None:
            _write_results(plan, result, summary)
    return result


def fit_worker(plan: Plan, ranks: Ranks) -> None:
    """Train with the process that leads, which calls `fit` with an equal plan, and keep nothing.

    Raises:
        FossilError: whatever `fit` raises before and during training.
    """
    trainer, plan, _ = make_trainer(plan, ranks)
    train_worker(trainer, plan.epochs)
    with lack_of_memory_as(_too_large(plan.kind, plan.config.settings, plan.graph)):
        trainer.close()


def make_trainer(plan: Plan, ranks: Ranks = ALONE) -> tuple[Trainer, Plan, Prepared]:
    """Build the method, bring the graph to its device, and return what trains it.

    With it come the plan, in which is settled whether steps read the whole graph, and where the graph's arrays are.
    """
    _check_alike(plan, ranks)
    plan = _as_before(plan, ranks)
    kind, graph, config = plan.kind, plan.graph, plan.config
    training, device = config.training, resolve_device(config.training.device)
    check_whole(kind, graph, training, device)
    with lack_of_memory_as(_too_large(kind, config.settings, graph)):
        model = kind.build(config.settings, graph.num_features, config.seed).to(device)
        _check_ranks(model, graph, ranks)
        how = prepare(model, graph, training, device, ranks)
        model.check_trainable(how.graph)
    if how.is_sampled:
        plan = _on_samples(plan)
    all_reduce_max(ranks, 0)  # nothing is written before all have come so far
    replay = training.replay and not how.is_sampled  # shapes of sampled steps depend on what is drawn
    trainer = Trainer(model, how.graph, config.seed, device, training.precision, replay=replay, ranks=ranks)
    return trainer, plan, how


def _check_alike(plan: Plan, ranks: Ranks) -> None:
    """Raise SettingError where processes were told to train different things: they would wait for each other."""
    config, training = plan.config, plan.config.training
    sampling = training.sampled, training.fan_out, training.batch_nodes
    # The graph is asked about first, because the identity is of it too.
    for what, mine in (("graphs", config.fingerprint), ("settings", f"{config.identity} {plan.epochs} {sampling}")):
        if not all_say(ranks, mine):
            raise SettingError(
                f"The {ranks.world_size} processes of this training were given different {what}.",
                remedy="Give all of them the same command, and every machine the same input.",
            )


def _as_before(plan: Plan, ranks: Ranks) -> Plan:
    """Return the plan with steps on samples settled where the run that is gone on with took them.

    More memory may be free than there was then, and steps on the whole graph would be another training.
    """
    begun = False
    if ranks.leads and plan.resume and plan.config.training.sampled == "auto" and plan.out is not None:
        begun = holds_run(plan.out) and RunConfig.read(plan.out).identity == _on_samples(plan).config.identity
    return _on_samples(plan) if all_reduce_max(ranks, int(begun)) else plan


def _on_samples(plan: Plan) -> Plan:
    """Return the plan with steps on samples settled."""
    training = plan.config.training.updated({"sampled": "always"})
    return replace(plan, config=replace(plan.config, training=training))


def _embedded(trainer: Trainer, plan: Plan, reporter: Reporter, *, in_parts: bool) -> NodeVectors:
    """Take the steps that follow the last epoch, and embed all nodes.

    Raises:
        SettingError: memory runs out.
        DivergedError: a weight or a vector is not finite.
    """
    model, prepared = trainer.method, trainer.prepared
    with lack_of_memory_as(_too_large(plan.kind, plan.config.settings, plan.graph)):
        trainer.close()
        model.eval()
        encoded = _embedded_in_parts(plan, model, prepared, reporter) if in_parts else model.encode(prepared)
    fault = fault_of(model, plan.graph.ids, encoded)
    if fault is not None:
        raise DivergedError.after(trainer.steps, fault)
    return encoded


def _embedded_in_parts(plan: Plan, model: Method[Any], prepared: Any, reporter: Reporter) -> NodeVectors:
    """Embed all nodes in parts; those are kept in the run folder until the vectors are written as one."""
    assert isinstance(model, TrainsOnSamples)
    inference, ids = model.inference(prepared), plan.graph.ids
    inference.progress = reporter.stage
    reporter.notice(f"embedding: {len(ids):,} nodes in parts of {min(ROWS, len(ids)):,}")

    def progress(done: int, total: int) -> None:
        reporter.stage("vectors", done / total)

    try:
        if plan.out is None:
            return join_chunks(_parts_in_memory(inference, len(ids), progress), len(ids))
        folder = plan.out / PARTS
        identity = f"{plan.config.identity} {weights_digest(model)}"
        write_parts(folder, inference, ids, identity, size=ROWS, progress=progress)
        del inference  # and what it keeps of every node, which makes room for the vectors
        return join_chunks(map(vectors_of, read_parts(folder)), len(ids))
    finally:
        reporter.finish()


def _parts_in_memory(inference: LayerwiseInference, nodes: int, progress: CountProgress) -> Iterator[NodeVectors]:
    for part in blocks(nodes, ROWS):
        yield inference.vectors(part.start, part.stop).on_host()
        progress(part.stop, nodes)


def _check_ranks(model: Method[Any], graph: Graph, ranks: Ranks) -> None:
    """Raise SettingError if a step of this method cannot be divided among so many processes."""
    if ranks.world_size == 1:
        return
    if not isinstance(model, Divides):
        raise SettingError(
            f"{model.title} cannot be trained by {ranks.world_size} processes: nothing in its steps is divided.",
            remedy="Start one process, without torchrun; or use --method fossil_v2 or --method fossil_channels_v2.",
        )
    if ranks.world_size > (parts := model.most_ranks(graph)):
        raise SettingError(
            f"{ranks.world_size} processes cannot share the {parts} anchors of a step.",
            remedy=f"Let torchrun start at most {parts} processes, or raise num_anchors.",
        )


def _with_remedy(error: DivergedError, plan: Plan, trainer: Trainer, checkpoints: Checkpoints) -> RunError:
    """Return the error with what to do about it, and which checkpoint is kept: the last good one."""
    if not plan.kind.trained:
        what = f"{plan.kind.title} cannot embed {plan.graph.name}: {error.fault}."
        return RunError(what, remedy="Scale features that are very large.")
    remedy = f"Lower the learning rates or train fewer epochs{or_released(plan.kind, plan.config.preset)}"
    if plan.out is not None:
        good = checkpoints.keep_good(trainer)
        kept = f"the last good checkpoint, of epoch {good}, is kept: --resume with --epochs {good} ends there"
        remedy += f"; {kept if good else 'there is no good checkpoint to keep'}"
    return DivergedError(error.fault, remedy=f"{remedy}.")


def _write_results(plan: Plan, result: FitResult, summary: Mapping[str, Any]) -> None:
    """Write what was learnt; the summary last, because a folder that has it is finished."""
    assert plan.out is not None
    write_embeddings(plan.out, result)
    about = {"num_features": plan.graph.num_features, "method": plan.kind.name}
    save_tensors(plan.out / "weights.safetensors", result.method.state_dict(), about)
    write_json(plan.out / "summary.json", sealed({**summary, "files": digests(plan.out)}))
    remove_parts(plan.out / PARTS)  # last: whoever is killed before goes on with them


def _check_loggers(kind: Kind, loggers: Sequence[Logger], out: Path | None) -> None:
    """Raise SettingError where a logger cannot be used, or would have nothing to log."""
    if loggers and not kind.trained:
        raise SettingError(f"{kind.title} is not trained: there is nothing to log.", remedy="Leave the log out.")
    for logger in loggers:
        logger.check(out)


def _too_large(kind: Kind, config: Settings, graph: Graph) -> SettingError:
    """Return what to say where memory runs out before or after training."""
    sizes = sorted(config.sizes().items(), key=lambda size: -size[1])[:3]
    return SettingError(
        f"{kind.title} on {graph.name} ({graph.num_nodes:,} nodes, {graph.num_features:,} features) does not fit in "
        f"memory with {', '.join(f'{name}={value}' for name, value in sizes) or 'these settings'}.",
        remedy="Lower the largest of these settings, or use a device with more memory.",
    )


def _check_memory(
    model: Method[Any], prepared: Any, graph: Graph, device: torch.device, reporter: Reporter, ranks: Ranks
) -> None:
    """Say how much memory training takes, where the method knows; raise GraphError if that is more than is free."""
    alone = step_memory(model, prepared)
    if alone is None:
        return
    needed, free = ranks.co_located * alone, free_memory(device)
    where = f"{device}" if ranks.co_located == 1 else f"{device} in {ranks.co_located} processes"
    there = "" if free is None else f", and {free / 2**30:,.1f} GiB are free"
    work, smaller = ("Training ", "hidden and width") if model.trained else ("", "width")
    if free is not None and needed > free:
        raise GraphError(
            f"{work}{model.title} on {graph.name} ({graph.num_nodes:,} nodes) needs about "
            f"{needed / 2**30:,.1f} GiB on {where}{there}.",
            remedy=f"Make {smaller} {needed / max(free, 1):.1f} times smaller, use a method that takes less, "
            "such as dgi, or a device with more memory.",
        )
    if model.trained:
        reporter.notice(f"memory: training takes about {needed / 2**30:,.1f} GiB on {where}{there}")
