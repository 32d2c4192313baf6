"""What is published: the lowest versions that it allows; the wheel, which without the checkout does the main job."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE")
FORCED = ("huggingface-hub", "safetensors")  # of which transformers, that some tests need, wants later ones
SMALL = "--quick --test-items 20 --epochs 1 --items-per-epoch 320 --validation-items 10"


def done(*command: object, at: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found = subprocess.run(
        list(map(str, command)), cwd=at, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_every_file_of_the_package_is_taken_along() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"][
        "package-data"
    ]
    taken = {
        file for name, own in settings.items() for one in own for file in ROOT.joinpath(*name.split(".")).glob(one)
    }
    there = {file for file in (ROOT / "selfattn").rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert there == taken


def test_the_lowest_versions_are_those_that_are_allowed() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [one for name in ("test", "onnx", "ctranslate2") for one in project["optional-dependencies"][name]]
    for asked in map(Requirement, [*project["dependencies"], *extras]):
        for bound in asked.specifier:
            if bound.operator == ">=":
                name = canonicalize_name(asked.name)
                is_lowest = Version(pins[name]) == Version(bound.version)
                assert is_lowest or (name in FORCED and Version(pins[name]) > Version(bound.version)), asked


@pytest.mark.slow
def test_the_wheel_does_the_main_job(tmp_path: Path) -> None:
    for name in ("build", "twine"):
        pytest.importorskip(name, reason="needs the extra [dev]")
    source, empty = tmp_path / "source", tmp_path / "empty"
    empty.mkdir()
    shutil.copytree(ROOT / "selfattn", source / "selfattn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in NEEDED:
        shutil.copy(ROOT / name, source)
    done(sys.executable, "-m", "build", "--no-isolation", source, "--outdir", tmp_path / "dist", at=empty)
    made = sorted((tmp_path / "dist").iterdir())
    assert [one.suffix for one in made] == [".whl", ".gz"]
    done(sys.executable, "-m", "twine", "check", "--strict", *made, at=empty)
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    done(programs / "python", "-m", "pip", "install", "--no-deps", "--no-index", made[0], at=empty)
    own = done(programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", at=empty).strip()
    # What it depends on is that of these tests; its own files come first.
    Path(own, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    assert (
        Path(own)
        in Path(done(programs / "python", "-c", "import selfattn; print(selfattn.__file__)", at=empty)).parents
    )
    selfattn = programs / "selfattn"
    assert "compare" in done(selfattn, "--help", at=empty)
    assert "transformer" in done(selfattn, "models", at=empty)
    done(selfattn, *f"compare dates {SMALL} --out out".split(), at=empty)
    assert (empty / "out" / "report.html").stat().st_size > 100_000
    run = next((empty / "out" / "runs").iterdir())
    done(selfattn, "demo", run, "--out", "demo.html", at=empty)
