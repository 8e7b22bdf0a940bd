"""Doing what is missing of a study: in this process, in several of this machine, or on the machines of a cluster."""

from __future__ import annotations

from fossil.errors import RunError, SettingError
from fossil.runs.interrupts import TrainingInterruptedError
from fossil.studies.mps import shared_gpu
from fossil.studies.on_ray import Cluster
from fossil.studies.plan import Graphs, StudyPlan
from fossil.studies.pool import Pool
from fossil.studies.store import Store
from fossil.studies.work import Options, Quiet, Reporter, work
from fossil.training.devices import resolve_device


class StudyInterruptedError(RunError):
    """Ctrl-C: what was finished is kept."""

    exit_status = 130


def run_study(
    plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter | None = None
) -> None:
    """Do what is missing.

    Raises:
        StudyInterruptedError: somebody pressed Ctrl-C; what was finished is kept.
        RunError: records cannot be written.
        SettingError: there is no such device, the number of processes is none, or a GPU cannot be shared.
    """
    if options.jobs is not None and options.jobs < 1:
        raise SettingError(f"{options.jobs} processes at once are not accepted.", remedy="Use 1 or more.")
    if options.executor == "ray" and options.mps:
        raise SettingError(
            "--mps shares the GPU of this machine, not those of a cluster.", remedy="Leave out one of the two."
        )
    if options.executor != "ray" and options.address is not None:
        raise SettingError(
            f"--address {options.address} was given, and no Ray cluster is used.", remedy="Add --executor ray."
        )
    told = reporter or Quiet()
    try:
        _execute(plan, graphs, store, options, told)
    except (KeyboardInterrupt, TrainingInterruptedError) as error:
        raise StudyInterruptedError(
            "Stopped. Everything that was finished is kept; the training under way is not.",
            remedy="Go on with the same command.",
        ) from error


def _execute(plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter) -> None:
    if options.executor == "ray":
        Cluster(plan, graphs, store, options, reporter).run()
        return
    device = resolve_device(options.device)
    if options.mps:
        with shared_gpu(device) as clients:
            Pool(plan, graphs, store, options, reporter, clients).run()
    elif (options.jobs or 1) > 1:
        Pool(plan, graphs, store, options, reporter).run()
    else:
        work(plan, graphs, store, options, reporter)
