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
