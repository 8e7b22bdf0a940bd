from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from fossil.methods.fossil.settings import FossilSettings
from fossil.runs.config import RunConfig
from fossil.training.trainer import TrainingSettings

CONFIG = RunConfig("fossil", "paper", FossilSettings(alpha=0.3), TrainingSettings(), 7, "town", "abc", "./town")


def test_configuration_survives_yaml() -> None:
    assert RunConfig.from_dict(yaml.safe_load(yaml.safe_dump(CONFIG.to_dict()))) == CONFIG


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seed": 8}, False),
        ({"method": "fossil_v2"}, False),
        ({"fingerprint": "abd"}, False),
        ({"settings": FossilSettings(alpha=0.4)}, False),
        ({"training": TrainingSettings(precision="tf32")}, False),
        ({"training": TrainingSettings(epochs=9, device="cpu", checkpoint_seconds=0)}, True),
        ({"graph": "city", "source": "elsewhere", "preset": "released"}, True),
    ],
)
def test_identity_is_what_the_weights_depend_on(change: dict[str, object], same: bool) -> None:
    assert (replace(CONFIG, **change).identity == CONFIG.identity) is same  # type: ignore[arg-type]
