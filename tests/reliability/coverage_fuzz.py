"""Bad input that is led by what code it reaches: `python tests/reliability/coverage_fuzz.py -runs=100000`.

Needs atheris (`pip install atheris`), whose options follow. Begins with the files of tests/fixtures/formats; what comes
of any other content is a value, or one line that says what is wrong.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

FORMATS = Path(__file__).parents[1] / "fixtures" / "formats"
RUN = "run-dates"


def readers(folder: Path) -> dict[str, Callable[[Path], object]]:
    """What reads which file; those that are not there are made."""
    from selfattn.codec import parse
    from selfattn.data.readers.lines import read_texts
    from selfattn.data.readers.pair_files import read_pairs
    from selfattn.evaluation.alignment.links import parse_links, read_gold
    from selfattn.runs.directory import RunDirectory
    from selfattn.tokenizers.load import load_tokenizer

    def links(path: Path) -> object:
        return parse_links(path.read_bytes().decode(errors="surrogateescape"), lengths=(3, 3))

    made = {
        "any.json": '{"a": [1, 2.5, null, "\\u00e9"]}',
        "links": "0-0 1p1 2-2",
        "gold.tsv": "a dog\tein Hund\t0-0 1-1\n",
        "pairs.tsv": "a dog\tein Hund\n",
        "pairs.csv": 'source,target\n"a, dog",ein Hund\n',
        "pairs.jsonl": '{"source": "a dog", "target": "ein Hund"}\n{"translation": {"source": "b", "target": "c"}}\n',
        "texts.txt": "one\ntwo\n",
    }
    for name, content in made.items():
        (folder / name).write_text(content, encoding="utf-8")
    return {
        "any.json": lambda path: parse(path.read_bytes()),
        "links": links,
        "gold.tsv": read_gold,
        "pairs.tsv": read_pairs,
        "pairs.csv": lambda path: read_pairs(path, columns=("source", "target")),
        "pairs.jsonl": lambda path: read_pairs(path, columns=("source", "target")),
        "texts.txt": read_texts,
        f"{RUN}/config.json": lambda path: RunDirectory(path.parent).config(),
        f"{RUN}/run.json": lambda path: RunDirectory(path.parent).record(),
        f"{RUN}/metrics.jsonl": lambda path: RunDirectory(path.parent).metrics(),
        f"{RUN}/tokenizer/char.json": lambda path: load_tokenizer(path.parent),
        "tokenizer-subword/subword.json": lambda path: load_tokenizer(path.parent),
        "tokenizer-subword/subword.model": lambda path: load_tokenizer(path.parent),
    }


def main() -> None:
    """Fuzz all of them; the first byte of a case says which."""
    import atheris  # no dependency of the project, not even of its tests

    folder = Path(tempfile.mkdtemp())
    shutil.copytree(FORMATS, folder, dirs_exist_ok=True)
    with atheris.instrument_imports(include=["selfattn"]):
        entries = readers(folder)
        from selfattn.errors import UserError
    names, whole, seeds = list(entries), {name: (folder / name).read_bytes() for name in entries}, folder / "seeds"
    seeds.mkdir()
    for number, content in enumerate(whole.values()):
        (seeds / str(number)).write_bytes(bytes([number]) + content)
    ends = {"read": 0, "refused": 0}

    def one(data: bytes) -> None:
        name = names[data[0] % len(names) if data else 0]
        path = folder / name
        path.write_bytes(data[1:])
        try:
            entries[name](path)
            ends["read"] += 1
        except UserError as error:
            said = str(error)
            assert said.strip() and "\n" not in said and len(said) <= 1000, (name, said)  # noqa: PT018
            ends["refused"] += 1
        except ValueError:
            if name != "any.json":  # of which its callers make a line
                raise
            ends["refused"] += 1
        finally:
            path.write_bytes(whole[name])
        if not sum(ends.values()) % 10_000:
            print(ends, flush=True)

    atheris.Setup([*sys.argv, "-timeout=20", "-max_len=60000", str(seeds)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
