"""Work that is done again and again."""

import torch

from fossil.training.capture import Captured


def test_work_on_a_cpu_is_done_anew_every_time() -> None:
    total = torch.zeros(())
    again = Captured(lambda: total.add_(1).clone(), torch.device("cpu"), warm_up=1)
    assert [float(again()) for _ in range(4)] == [1, 2, 3, 4]
    assert again.graph is None
