"""Rules that decide whether what a paper says in words holds over the records of studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import mean, median

from fossil.evaluation.statistics import Summary
from fossil.studies.entries import Quantity
from fossil.studies.results import Results, over_encoders, paired

SIMILAR = ("Cora", "CiteSeer", "PubMed", "CoAuthor-CS")  # neighbours share their class
DIFFERENT = ("Actor", "Chameleon", "Squirrel")
SELF_SUPERVISED = (
    "GSC", "GSC+Cheb", "MUSE", "DGI", "DSSL", "BGRL", "GRACE", "Subg-Con", "PolyGCL", "BNLL", "FOSSIL", "FOSSIL v2",
)  # fmt: skip


class Status(Enum):
    """What became of a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    UNKNOWN = "not measured"


@dataclass(frozen=True)
class Finding:
    """What became of a claim, and the figures that say so."""

    status: Status
    why: str


@dataclass(frozen=True)
class Reading:
    """How accuracy is counted."""

    title: str
    quantity: Quantity
    protocol: str


READINGS = (
    Reading("as the paper counts", "test_maximum", "released"),
    Reading("converged probe", "accuracy", "converged"),
)


@dataclass(frozen=True)
class Evidence:
    """The records of all studies, counted one way."""

    studies: Mapping[str, Results]
    reading: Reading

    def values(self, study: str, row: str, graph: str, quantity: Quantity | None = None) -> dict[int, dict[int, float]]:
        """Return what the encoders of a row have on a graph; nothing where there is no such study, row or graph."""
        results = self.studies.get(study)
        titles = [] if results is None else [one.title for one in results.plan.rows]
        if results is None or row not in titles or graph not in results.plan.columns:
            return {}
        at = titles.index(row), results.plan.columns.index(graph)
        found = results.values(*at, quantity or self.reading.quantity, self.reading.protocol)
        return {seed: dict(splits) for seed, splits in found.items()}

    def mean(self, study: str, row: str, graph: str) -> float | None:
        """Return the mean accuracy in percent."""
        found = over_encoders(self.values(study, row, graph), self.reading.protocol)
        return None if found is None else 100 * found.mean

    def difference(self, study: str, row: str, other: str, graph: str) -> Summary | None:
        """Return how far a row is above another one, encoder by encoder."""
        return paired(self.values(study, row, graph), self.values(study, other, graph), self.reading.protocol)

    def cost(self, study: str, row: str, graph: str, quantity: Quantity) -> float | None:
        """Return the median over encoders of what a training took."""
        found = [mean(one.values()) for one in self.values(study, row, graph, quantity).values()]
        return median(found) if found else None


Check = Callable[[Evidence], Finding]


@dataclass(frozen=True)
class Claim:
    """One claim: where the paper makes it, what it says in our words, and what decides it."""

    section: str
    says: str
    check: Check


def better(study: str, row: str, other: str, graphs: Sequence[str] = SIMILAR + DIFFERENT) -> Check:
    """Return whether a row is above another one: on every graph, on some and on average, or not."""

    def check(evidence: Evidence) -> Finding:
        found = {graph: evidence.difference(study, row, other, graph) for graph in graphs}
        known = {graph: one for graph, one in found.items() if one is not None}
        if not known:
            return _unknown(graphs)
        sides = {graph: _side(one) for graph, one in known.items()}
        average = 100 * mean(one.mean for one in known.values())
        above, below = ([graph for graph, side in sides.items() if side == of] for of in (1, -1))
        partly = Status.IN_PART if above and average > 0 else Status.FAILS
        status = Status.HOLDS if len(above) == len(known) else partly
        least, most = (f(known, key=lambda graph: known[graph].mean) for f in (min, max))
        told = (
            f"{row} is above {other} on {len(above)}, below on {len(below)} of {len(known)} graphs; on average "
            f"{average:+.1f}, from {100 * known[least].mean:+.1f} ({least}) to {100 * known[most].mean:+.1f} ({most})"
        )
        return Finding(status, told + _missing(found))

    return check


def all_of(*checks: Check) -> Check:
    """Return what becomes of a claim that says several things: all of them, some or none; with the words of all."""

    def check(evidence: Evidence) -> Finding:
        found = [one(evidence) for one in checks]
        statuses = [one.status for one in found]
        why = "; ".join(dict.fromkeys(one.why for one in found))  # equal words once
        if Status.UNKNOWN in statuses:
            return Finding(Status.UNKNOWN, why)
        if len(set(statuses)) == 1:
            return Finding(statuses[0], why)
        return Finding(Status.IN_PART if Status.HOLDS in statuses or Status.IN_PART in statuses else Status.FAILS, why)

    return check


def on_average(row: str, other: str) -> Check:
    """Return whether a row of Table 2 has the higher mean over graphs, which all have to be there."""

    def check(evidence: Evidence) -> Finding:
        graphs = SIMILAR + DIFFERENT
        pairs = [[evidence.mean("table2", one, graph) for one in (row, other)] for graph in graphs]
        if any(value is None for pair in pairs for value in pair):
            return _unknown(graphs)
        means = [mean(pair[at] or 0.0 for pair in pairs) for at in (0, 1)]
        status = Status.HOLDS if means[0] > means[1] else Status.FAILS
        return Finding(status, f"mean over {len(graphs)} graphs {means[0]:.1f} for {row}, {means[1]:.1f} for {other}")

    return check


def first_or_second(evidence: Evidence) -> Finding:
    """Return whether FOSSIL or its second version is best or second best on most graphs."""
    ranks = {}
    for graph in SIMILAR + DIFFERENT:
        means = {row: evidence.mean("table2", row, graph) for row in SELF_SUPERVISED}
        known = sorted((value for value in means.values() if value is not None), reverse=True)
        ours = [value for row in ("FOSSIL", "FOSSIL v2") if (value := means[row]) is not None]
        if ours and len(known) > 2:
            ranks[graph] = 1 + known.index(max(ours))
    if not ranks:
        return _unknown(SIMILAR + DIFFERENT)
    good = sum(rank <= 2 for rank in ranks.values())
    status = Status.HOLDS if good == len(ranks) else Status.IN_PART if good > len(ranks) / 2 else Status.FAILS
    listing = ", ".join(f"{graph} {rank}" for graph, rank in ranks.items())
    return Finding(status, f"rank of the better version by its mean among methods without labels: {listing}")


def competitive(study: str, row: str, others: Sequence[str], graphs: Sequence[str], within: float = 2.0) -> Check:
    """Return whether a row is at most so many points below the best of others."""

    def check(evidence: Evidence) -> Finding:
        behind = {}
        for graph in graphs:
            known = [value for one in others if (value := evidence.mean(study, one, graph)) is not None]
            own = evidence.mean(study, row, graph)
            if known and own is not None:
                behind[graph] = max(known) - own
        if not behind:
            return _unknown(graphs)
        near = sum(distance <= within for distance in behind.values())
        status = Status.HOLDS if near == len(behind) else Status.IN_PART if near > len(behind) / 2 else Status.FAILS
        listing = ", ".join(f"{graph} {-distance:+.1f}" for graph, distance in behind.items())
        return Finding(
            status, f"{row} beside the best other, {within:g} points below it counting as competitive: {listing}"
        )

    return check


def cheaper(study: str, row: str, quantity: Quantity, graphs: Sequence[str]) -> Check:
    """Return whether a training of a row takes less than one of most other methods without labels."""

    def check(evidence: Evidence) -> Finding:
        told, good = [], []
        for graph in graphs:
            own = evidence.cost(study, row, graph, quantity)
            others = [evidence.cost(study, one, graph, quantity) for one in SELF_SUPERVISED if one != row]
            known = [one for one in others if one is not None]
            if own is None or not known:
                continue
            less = sum(own < one for one in known)
            good.append(less > len(known) / 2)
            told.append(f"{graph} less than {less} of {len(known)}")
        if not told:
            return _unknown(graphs)
        status = Status.HOLDS if all(good) else Status.IN_PART if any(good) else Status.FAILS
        return Finding(status, f"{quantity} of {row}: {', '.join(told)}")

    return check


def somewhere(study: str, rows: Sequence[str], other: str, at_least: int) -> Check:
    """Return whether rows are above another one in so many cases, a case being one of them on one graph."""

    def check(evidence: Evidence) -> Finding:
        graphs = SIMILAR + DIFFERENT
        told, cases, measured = [], 0, False
        for row in rows:
            found = [(graph, evidence.difference(study, row, other, graph)) for graph in graphs]
            above = [graph for graph, one in found if one is not None and _side(one) == 1]
            measured |= any(one is not None for _, one in found)
            cases += len(above)
            told.append(f"{row} is above {other} on {', '.join(above) or 'none'}")
        if not measured:
            return _unknown(graphs)
        return Finding(Status.HOLDS if cases >= at_least else Status.FAILS, "; ".join(told))

    return check


def alpha_matters(evidence: Evidence) -> Finding:
    """Return whether the best and the worst α are more than two points apart on most graphs."""
    spans = {}
    for graph in SIMILAR + DIFFERENT:
        curve = _alphas(evidence, graph)
        if curve:
            spans[graph] = max(curve.values()) - min(curve.values())
    if not spans:
        return _unknown(SIMILAR + DIFFERENT)
    wide = sum(span > 2 for span in spans.values())
    status = Status.HOLDS if wide == len(spans) else Status.IN_PART if wide > len(spans) / 2 else Status.FAILS
    listing = ", ".join(f"{graph} {span:.1f}" for graph, span in spans.items())
    return Finding(status, f"points between the best and the worst α, more than 2 counting as a change: {listing}")


def best_alpha(graphs: Sequence[str], low: float, high: float) -> Check:
    """Return whether the best α lies in a range."""

    def check(evidence: Evidence) -> Finding:
        best = {graph: max(curve, key=curve.__getitem__) for graph in graphs if (curve := _alphas(evidence, graph))}
        if not best:
            return _unknown(graphs)
        inside = sum(low <= value <= high for value in best.values())
        status = Status.HOLDS if inside == len(best) else Status.IN_PART if inside > len(best) / 2 else Status.FAILS
        listing = ", ".join(f"{graph} {value:g}" for graph, value in best.items())
        return Finding(status, f"best α, {low:g} to {high:g} counting: {listing}")

    return check


def _alphas(evidence: Evidence, graph: str) -> dict[float, float]:
    """Return the mean accuracy by α, where every value of α was measured."""
    results = evidence.studies.get("alpha")
    rows = [] if results is None else results.plan.rows
    found = {float(row.swept): evidence.mean("alpha", row.title, graph) for row in rows}
    known = {alpha: value for alpha, value in found.items() if value is not None}
    return known if found and len(known) == len(found) else {}


def grows_little(row: str, most: float = 1.5) -> Check:
    """Return whether an epoch on 30,000 nodes takes about as long as one on 1,000."""

    def check(evidence: Evidence) -> Finding:
        small, large = (evidence.cost("growth", row, graph, "epoch_seconds") for graph in ("1,000", "30,000"))
        if small is None or large is None:
            return _unknown(("1,000", "30,000"))
        status = Status.HOLDS if large / small <= most else Status.FAILS
        told = f"{row} takes {1e3 * small:.3g} ms an epoch on 1,000 nodes and {1e3 * large:.3g} ms on 30,000"
        return Finding(status, f"{told}, {large / small:.1f} times; up to {most:g} counting as no significant increase")

    return check


def _side(difference: Summary) -> int:
    """Return 1 where the interval of a difference lies above zero, -1 where below, else 0."""
    if difference.interval is None:
        return 0
    return 1 if difference.interval.low > 0 else -1 if difference.interval.high < 0 else 0


def _unknown(graphs: Sequence[str]) -> Finding:
    everywhere = tuple(graphs) == SIMILAR + DIFFERENT
    return Finding(Status.UNKNOWN, "needs all seven graphs" if everywhere else f"needs {', '.join(graphs)}")


def _missing(found: Mapping[str, Summary | None]) -> str:
    graphs = [graph for graph, one in found.items() if one is None]
    return f" (not measured: {', '.join(graphs)})" if graphs else ""
