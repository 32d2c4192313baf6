"""What the tests of the page share: the engine run by node, and a real headless Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

ENGINE = resources.files("selfattn.demo").joinpath("templates", "engine.js").read_text(encoding="utf-8")
HARNESS = Path(__file__).with_name("harness.js").read_text(encoding="utf-8")

Ask = Callable[[str, list[dict[str, Any]]], list[Any]]


@pytest.fixture(scope="session")
def ask_node() -> Ask:
    """Call a function of the engine or the harness in node: its name, and the argument of each call."""
    node = shutil.which("node")
    if not node:
        pytest.skip("needs node")

    def ask(function: str, arguments: list[dict[str, Any]]) -> list[Any]:
        told = f"JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8')).map(one => {function}(one)))"
        script = f"{ENGINE}\n{HARNESS}\nprocess.stdout.write({told});"
        done = subprocess.run([node, "-e", script], input=json.dumps(arguments), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        answers: list[Any] = json.loads(done.stdout)
        return answers

    return ask


@pytest.fixture(scope="session")
def ask_chromium(driver: Any) -> Ask:
    """Call a function of the engine or the harness in Chromium, one call at a time."""

    def ask(function: str, arguments: list[dict[str, Any]]) -> list[Any]:
        driver.get("about:blank")
        script = f"{ENGINE}\n{HARNESS}\nreturn JSON.stringify({function}(JSON.parse(arguments[0])));"
        return [json.loads(driver.execute_script(script, json.dumps(one))) for one in arguments]

    return ask
