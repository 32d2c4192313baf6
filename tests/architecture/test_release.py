"""A release: the source archive has what README names, and the page on the package index has absolute links."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
ADDRESS = "https://github.com/somebody/selfattn"
LINK = re.compile(r'(?:\]\(|src=")([^)"]+)')


@pytest.fixture
def release() -> ModuleType:
    spec = spec_from_file_location("release", ROOT / ".github/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_become_absolute(release: ModuleType, tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_the_source_archive_has_what_the_readme_names(release: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("build.__main__", reason="needs the extra [dev]")  # not a folder of that name
    tree = tmp_path / "tree"
    skipped = shutil.ignore_patterns(
        ".git", ".mypy_cache", ".ruff_cache", "__pycache__", "*.egg-info", "build", "shared"
    )
    shutil.copytree(ROOT, tree, symlinks=True, ignore=skipped)
    named = {link.partition("#")[0] for link in LINK.findall((tree / "README.md").read_text(encoding="utf-8"))}
    release.prepare(tree, ADDRESS, "v0.1.0")
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(tree)]
    subprocess.run(command, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = {name for name in named if name and not name.startswith("https://")}
    assert {name for name in wanted if name not in names} == set()
    assert {"constraints.txt", "tests/conftest.py", "docs/index.md"} <= names
    pytest.importorskip("twine", reason="needs the extra [dev]")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(archive)], check=True, capture_output=True)
