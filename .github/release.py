"""Prepare a checkout for a release: absolute links in README.md, and the project's addresses in pyproject.toml.

    python .github/release.py https://github.com/OWNER/NAME v0.1.0

The workflow release.yml calls it with the address of its own repository, so that no address stands in the files.
"""

import re
import sys
from pathlib import Path

_LINK = re.compile(r'(\]\(|src=")(?!https?://|#|mailto:)([^)"#]+)')
_PAGES = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}


def absolute(text: str, address: str, tag: str) -> str:
    """Return Markdown whose relative links and images lead to the files of a tag.

    Args:
        text: such as the content of README.md.
        address: of the repository.
        tag: of the release.

    Example:
        >>> absolute("[a](docs/a.md#b) ![c](d.png)", "https://github.com/o/n", "v1")
        '[a](https://github.com/o/n/blob/v1/docs/a.md#b) ![c](https://github.com/o/n/raw/v1/d.png)'
    """

    def lead(match: re.Match[str]) -> str:
        kind = "raw" if match[2].endswith((".png", ".svg")) else "blob"
        return f"{match[1]}{address}/{kind}/{tag}/{match[2]}"

    return (
        _LINK.sub(lead, text)
        .replace("`URL` is the repository's clone address. ", "")
        .replace("clone URL ", f"clone {address} ")
    )


def prepare(root: Path, address: str, tag: str) -> None:
    """Change README.md and pyproject.toml of a checkout."""
    readme = root / "README.md"
    readme.write_text(absolute(readme.read_text(encoding="utf-8"), address, tag), encoding="utf-8")
    urls = {"Repository": address, "Issues": f"{address}/issues"}
    urls |= {name: f"{address}/blob/{tag}/{page}" for name, page in _PAGES.items()}
    table = "\n".join(["[project.urls]", *(f'{name} = "{url}"' for name, url in urls.items())])
    project = root / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    project.write_text(text.replace("[project.scripts]", f"{table}\n\n[project.scripts]", 1), encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(__file__).resolve().parents[1], sys.argv[1].rstrip("/"), sys.argv[2])
