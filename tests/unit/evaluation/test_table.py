from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from fossil.evaluation.evaluate import Row
from fossil.evaluation.statistics import Summary
from fossil.evaluation.table import table_of


def printed(rows: list[Row]) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(table_of(rows))
    return stream.getvalue()


def row(**changes: object) -> Row:
    several = Summary(0.8, 0.75, 0.85, 0.05, 0.03, 3, (0.77, 0.8, 0.83))
    base = {"graph": "town", "method": "FOSSIL", "encoders": 3, "splits": 1, "metrics": {"accuracy": several}}
    rest = {"features": None, "published": None, "protocol": "in words", "confidence": 0.95}
    return Row(**(base | rest | changes))  # type: ignore[arg-type]


def test_the_table_has_only_columns_with_content() -> None:
    text = printed([row()])
    assert "80.00" in text and "75.00 to 85.00" in text and "3 × 1" in text
    assert not any(name in text for name in ("test maximum", "raw features", "published"))
    text = printed(
        [row(published=53.03, features=Summary(0.5, 0.45, 0.55, 0.05, 0.03, 3, (0.47, 0.5, 0.53))), row(graph="city")]
    )
    assert "published" in text and "53.03" in text and "50.00 ± 5.00" in text and "test maximum" not in text


def test_the_table_says_what_its_numbers_are() -> None:
    plain = row()
    best = replace(plain.accuracy, mean=0.91, half_width=0.02)
    text = printed([row(confidence=0.9, metrics={**plain.metrics, "test_maximum": best}, supervised=True)])
    assert "90 % interval" in text and "test maximum" in text and "91.00 ± 2.00" in text and "3 × own split" in text
    single = Summary(0.8, 0.8, 0.8, 0.0, 0.0, 1, (0.8,))
    assert "one value" in printed([row(metrics={"accuracy": single})])
