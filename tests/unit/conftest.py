"""What tests of several packages need."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def interpret() -> Callable[[str, Any], Any]:
    """Return a function that runs a script with kernels interpreted, and returns what it printed as JSON.

    Triton decides at its import whether it interprets, so a script has a process of its own. It finds what it is given
    as JSON in its first argument.
    """

    def run(script: str, given: Any) -> Any:
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        command = [sys.executable, "-c", script, json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
