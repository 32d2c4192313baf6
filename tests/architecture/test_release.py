"""What is published: one version, lowest versions, links, files of the archive; the wheel alone does the main job."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import selfattn
from selfattn.attention import MultiHeadAttention, positions, scores
from selfattn.registry import SCORES

ROOT = Path(__file__).parents[2]
ADDRESS = "https://github.com/somebody/selfattn"
LINK = re.compile(r'(?:\]\(|src=")([^)"]+)')
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OF_A_RUN = ("*.safetensors", "*.pt", "*.pth", "*.ckpt", "*.onnx", ".lock", "*.lock", "run.json", "metrics.jsonl")


def test_no_run_is_tracked_outside_the_fixtures():
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs git and its repository")
    command = ["git", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [PurePosixPath(name) for name in names if not name.startswith("tests/fixtures/")]
    assert [str(path) for path in paths if any(path.match(pattern) for pattern in OF_A_RUN)] == []


def test_the_version_is_said_as_it_is():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: ([0-9.]+)", text, re.M) == [selfattn.__version__]
    assert "version" not in PROJECT["project"]  # the package has it from one place


def test_help_of_attention_names_scores_and_positions():
    text = MultiHeadAttention.__doc__ or ""
    # From the file, since the example of a docstring registers a score of that module too.
    own = re.findall(r'^@register\.score\("(\w+)"\)', Path(scores.__file__).read_text(encoding="utf-8"), re.M)
    assert len(own) >= 6
    assert set(own) <= set(SCORES)
    assert all(f"``{name}``" in text for name in own)
    kinds = [one for one in vars(positions).values() if isinstance(one, type) and issubclass(one, positions.Position)]
    bases = {one for one in kinds if any(issubclass(other, one) and other is not one for other in kinds)}
    for kind in set(kinds) - bases - {positions.NoPosition}:
        assert f"``{kind.__name__}``" in text, kind


@pytest.fixture
def release():
    spec = spec_from_file_location("release", ROOT / ".github/release.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_become_absolute(release, tmp_path):
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    release.prepare(tmp_path, ADDRESS, "v0.1.0")
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    links = LINK.findall(readme)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert f"{ADDRESS}/raw/v0.1.0/docs/images/demo.png" in readme
    assert f"git clone {ADDRESS} selfattn" in readme
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Repository"] == ADDRESS
    for link in links:  # which lead to files that are there
        path = link.partition("#")[0].removeprefix(f"{ADDRESS}/blob/v0.1.0/").removeprefix(f"{ADDRESS}/raw/v0.1.0/")
        assert path.startswith(("https://", "#")) or not path or (ROOT / path).exists(), link


FORCED = ("huggingface-hub", "safetensors")  # of which transformers, that some tests need, wants later ones
SMALL = "--quick --test-items 20 --epochs 1 --items-per-epoch 320 --validation-items 10"


def done(*command, at):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(word) for word in command]
    found = subprocess.run(words, cwd=at, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_every_file_of_the_package_is_taken_along():
    data = PROJECT["tool"]["setuptools"]["package-data"]
    taken = {file for name, own in data.items() for one in own for file in ROOT.joinpath(*name.split(".")).glob(one)}
    there = {file for file in (ROOT / "selfattn").rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert there == taken


def test_the_lowest_versions_are_those_that_are_allowed():
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = PROJECT["project"]
    extras = [one for name in ("test", "onnx", "ctranslate2") for one in project["optional-dependencies"][name]]
    for asked in map(Requirement, [*project["dependencies"], *extras]):
        for bound in asked.specifier:
            if bound.operator == ">=":
                name = canonicalize_name(asked.name)
                is_lowest = Version(pins[name]) == Version(bound.version)
                assert is_lowest or (name in FORCED and Version(pins[name]) > Version(bound.version)), asked


@pytest.mark.slow
def test_the_archive_has_what_the_readme_names_and_the_wheel_does_the_main_job(release, tmp_path):
    for name in ("build.__main__", "twine"):  # not a folder of the name "build"
        pytest.importorskip(name, reason="needs the extra [dev]")
    tree, empty = tmp_path / "tree", tmp_path / "empty"
    empty.mkdir()
    skipped = ".git .mypy_cache .ruff_cache __pycache__ *.egg-info build shared"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(*skipped.split()))
    named = {link.partition("#")[0] for link in LINK.findall((tree / "README.md").read_text(encoding="utf-8"))}
    release.prepare(tree, ADDRESS, "v0.1.0")
    done(sys.executable, "-m", "build", "--no-isolation", tree, "--outdir", tmp_path / "dist", at=empty)
    made = sorted((tmp_path / "dist").iterdir())
    assert [one.suffix for one in made] == [".whl", ".gz"]
    done(sys.executable, "-m", "twine", "check", "--strict", *made, at=empty)
    with tarfile.open(made[1]) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = {name for name in named if name and not name.startswith("https://")}
    assert wanted | {"constraints.txt", "tests/conftest.py", "docs/index.md"} <= names
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    done(programs / "python", "-m", "pip", "install", "--no-deps", "--no-index", made[0], at=empty)
    own = done(programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", at=empty).strip()
    # What it depends on is that of these tests; its own files come first.
    Path(own, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    imported = done(programs / "python", "-c", "import selfattn; print(selfattn.__file__)", at=empty)
    assert Path(own) in Path(imported).parents
    program = programs / "selfattn"
    assert "compare" in done(program, "--help", at=empty)
    assert "transformer" in done(program, "models", at=empty)
    done(program, *f"compare dates {SMALL} --out out".split(), at=empty)
    assert (empty / "out" / "report.html").stat().st_size > 100_000
    run = next((empty / "out" / "runs").iterdir())
    done(program, "demo", run, "--out", "demo.html", at=empty)
