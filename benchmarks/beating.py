"""Who beats features and propagated features, for which nothing is trained, in records of `accuracy.py`."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from statistics import mean
from typing import Any, TypeAlias

from fossil.evaluation.protocol import protocol
from fossil.methods.registry import get_method

MARK = "†"
Floors: TypeAlias = dict[tuple[str, str, str], dict[str, dict[int, dict[str, Any]]]]


def floors_of(records: list[dict[str, Any]]) -> Floors:
    """Return the records of untrained methods with default settings, by graph, direction and protocol."""
    found: Floors = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if not get_method(record["method"]).trained and not record["set"] and "failed" not in record:
            found[place_of(record)][record["method"]][record["seed"]] = record
    return found


def place_of(record: dict[str, Any]) -> tuple[str, str, str]:
    """Return where a record may be compared: the graph, its direction and the protocol."""
    return record["graph"], record["direction"], record["protocol"]


def mark(kept: list[dict[str, Any]], floors: Floors) -> str:
    """Return † where these encoders do not beat the better untrained method in the same place, else nothing."""
    if not kept or not get_method(kept[0]["method"]).trained:
        return ""
    differences = [differences_from(kept, by_seed) for by_seed in floors.get(place_of(kept[0]), {}).values()]
    # Above the better one are smaller differences.
    found = min(
        (protocol(kept[0]["protocol"]).summarize(one) for one in differences if one),
        key=attrgetter("mean"),
        default=None,
    )
    if found is None:
        return ""
    return "" if (found.mean if found.interval is None else found.interval.low) > 0 else f" {MARK}"


def differences_from(kept: list[dict[str, Any]], floor: dict[int, dict[str, Any]]) -> list[float]:
    """Return how far each encoder is above an untrained one of its seed, on the splits that both were scored on.

    Who was trained on labels has the split of its own seed alone, which is the first of the other's.
    """
    pairs = [(one["accuracies"], floor[one["seed"]]["accuracies"]) for one in kept if one["seed"] in floor]
    return [mean(own) - mean(other[: len(own)]) for own, other in pairs if len(own) <= len(other)]
