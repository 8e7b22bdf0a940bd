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
