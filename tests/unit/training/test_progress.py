"""What people see of a training."""

import io

from rich.console import Console

from fossil.training.progress import LiveReporter


def test_a_notice_and_an_epoch_are_whole_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with LiveReporter(Console(file=out, width=20)) as reporter:
        reporter.notice("memory: " + "much " * 20)
        reporter.start(0, 1)
        reporter.notice("time: [a bracket]")
        reporter.update(1, {"epoch": 1, "loss": 0.5, "seconds": 2.0})
    assert out.getvalue().splitlines() == ["memory: " + "much " * 20, "time: [a bracket]", "epoch 1/1  loss 0.5  2.0 s"]


def test_on_a_terminal_of_80_columns_counts_and_times_are_whole() -> None:
    record = {"contrast": 9.994, "ot": 2.317, "node": 7.677, "fusion": 1875.0, "lambda_mean": 0.25, "seconds": 1.0}
    for width, parts in ((80, "loss 9.994"), (130, "loss 9.994  subgraphs 2.317  nodes 7.677  fusion 1875  λ 0.25")):
        out = io.StringIO()
        with LiveReporter(Console(file=out, width=width, force_terminal=True, color_system=None)) as reporter:
            reporter.start(0, 1000)
            reporter.update(1000, record)
        line = next(line for line in reversed(out.getvalue().splitlines()) if "training" in line)
        assert "…" not in line and f" 1000/1000 {parts} 0:00:00 left 0:00:00" in line


def test_stages_are_bars_with_the_time_left_on_a_terminal_and_nothing_elsewhere() -> None:
    for terminal in (True, False):
        out = io.StringIO()
        with LiveReporter(Console(file=out, width=60, force_terminal=terminal)) as reporter:
            for share in (0.25, 0.5, 1.0):
                reporter.stage("first layer", share)
            reporter.stage("vectors", 0.5)
        text = out.getvalue()
        assert not terminal or ("first layer" in text and "vectors" in text and "left" in text)
        assert terminal or not text
