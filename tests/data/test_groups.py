"""Several files are one corpus if names and contents say how they belong together; else they are refused."""

import gzip
import shutil
from pathlib import Path

import pytest

from selfattn.data.corpus import CleaningOptions, read_corpus
from selfattn.data.pairs import Pair
from selfattn.data.readers.pairs import PairFiles, read_pairs, refuse_turned
from selfattn.errors import UserError
from selfattn.tasks.translation import Translation

PAIRS = {
    ".tsv": "Go{n}.\tVa{n} !\n",
    ".csv": "source,target\nGo{n}.,Va{n} !\n",
    ".jsonl": '{{"source": "Go{n}.", "target": "Va{n} !"}}\n',
    ".txt": "Go{n}.\tVa{n} !\tby a friend\n",  # as from Tatoeba
    ".dat": '{{"source": "Go{n}.", "target": "Va{n} !"}}\n',
    ".book": "Go{n}.  _Va{n} !\n" * 2,
    ".en-ko{n}.txt": "Go{n}.  _Va{n} !\n" * 2,  # neither script nor country: no language
}


def groups_of(paths: list[Path]) -> list[tuple[Path, ...]]:
    return [tuple(file.path for file in group) for group in PairFiles(tuple(paths)).groups]


def write(folder: Path, contents: dict[str, str]) -> list[Path]:
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in contents]


@pytest.mark.parametrize("second", PAIRS)
@pytest.mark.parametrize("first", PAIRS)
def test_files_that_hold_pairs_are_one_corpus(tmp_path: Path, first: str, second: str) -> None:
    names = ("part1" + first.format(n=1), "part2" + second.format(n=2))
    contents = {names[0]: PAIRS[first].format(n=1), names[1]: PAIRS[second].format(n=2)}
    pairs = read_pairs(*write(tmp_path, contents))
    assert list(dict.fromkeys(pairs)) == [Pair("Go1.", "Va1 !"), Pair("Go2.", "Va2 !")]


def test_pairs_of_files_are_one_corpus_and_places_name_their_file(tmp_path: Path) -> None:
    contents = {"a.en": "Go.\nHi.\n", "a.de": "Los.\n \n", "b.en.txt": "Run!\n", "b.de.txt": "Lauf!\n"}
    paths = write(tmp_path, contents)
    with pytest.raises(UserError, match=r"a\.de, b\.en\.txt|a\.en, a\.de:2: the source or the target is empty"):
        read_pairs(*paths)
    corpus = {"train": paths, "valid": paths[:2], "test": paths[:2]}
    files = {name: PairFiles(tuple(part)) for name, part in corpus.items()}
    splits = read_corpus(files, ("en", "de"), cleaning=CleaningOptions(overlap=False))
    assert list(splits.parts["train"]) == [Pair("Go.", "Los."), Pair("Run!", "Lauf!")]
    assert "  left out, empty: 1 (first a.en, a.de:2)" in splits.notes


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"a.tsv": "a\tb\n", "b.de": "c\n"}, "a.tsv holds pairs by itself, "),
        ({"a.en": "a\n", "a.de": "b\n", "b.en": "c\n"}, "3 files of one side each (a.en, a.de, b.en)"),
        ({"part1.en": "a\n", "part2.en": "b\n"}, "a source and a target end in .en (part1.en, part2.en)"),
        ({"a.en": "a\n", "b.en": "b\n", "a.de": "c\n", "b.de": "d\n"}, "a source and a target end in .de, .en"),
        ({f"{n}.txt": f"{n}\n" for n in range(4)}, "the names do not tell sources from targets"),
        ({"a.txt": "a\tb\n" + "c\n" * 9, "b.txt": "d\n" * 10}, "a tab in 1 of its first 10 lines; name it .tsv"),
        ({"a.en": "a\tb\n", "a.de": "c\td\n"}, "a tab in all of its first 1 line, so they may be pairs"),
        ({"a.txt": "the_DT cat_NN\na_DT\n", "b.txt": "x_Y\n"}, "an underscore in all of its first 2 lines"),
    ],
)
def test_what_names_and_contents_do_not_tell_is_refused(tmp_path: Path, contents: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        groups_of(write(tmp_path, contents))
    message = message.replace("end in .de, .en", "end in .")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_texts_with_stray_tabs_and_braces_are_sides_if_their_names_say_so(tmp_path: Path) -> None:
    paths = write(tmp_path, {"a.en": "a\tb\n{c\nd_e\n", "a.de": "{}\n2\n3\n"})
    assert groups_of(paths) == [tuple(paths)]


def test_a_file_is_not_given_twice(tmp_path: Path) -> None:
    path, other = write(tmp_path, {"a.tsv": "a\tb\n", "further/b.tsv": "c\td\n"})
    shutil.copy(path, tmp_path / "copy.tsv")
    (tmp_path / "link.tsv").symlink_to(path)
    (tmp_path / "hard.tsv").hardlink_to(path)
    (tmp_path / "packed.tsv.gz").write_bytes(gzip.compress(path.read_bytes()))
    again = [path, tmp_path / "further" / ".." / "a.tsv", *(tmp_path / f"{name}.tsv" for name in ("link", "hard"))]
    for second in again:
        with pytest.raises(UserError, match=r"is given twice.*; leave it out once"):
            groups_of([path, other, second])
    for name in ("copy.tsv", "packed.tsv.gz"):
        with pytest.raises(UserError, match=r"has the same content as .*a\.tsv; leave it out"):
            groups_of([path, other, tmp_path / name])


def test_sides_that_names_turn_round_are_refused(tmp_path: Path) -> None:
    paths = write(tmp_path, {"a.ko": "가\n", "a.en": "Go.\n", "b.tgt": "c\n", "b.src": "d\n"})
    for turned, languages in ((paths[:2], ("en", "ko")), (paths[:2], ("English", "kor")), (paths[2:], None)):
        with pytest.raises(UserError, match=r"given as source, but .* is the target; turn them round"):
            refuse_turned(turned, languages=languages)
        refuse_turned(turned[::-1], languages=languages)
    with pytest.raises(UserError, match="`columns` en: given as target, but it is the source"):
        refuse_turned([], ("x", "en"), ("en", "de"))
    for columns, known in ((("2", "1"), ("en", "de")), (("en", "de"), ("en", "en")), (("de", "en"), None)):
        refuse_turned([tmp_path / "a.tsv"], columns, known)


def test_a_training_refuses_turned_sides_and_a_test_that_chose_the_weights(tmp_path: Path) -> None:
    paths = write(tmp_path, {"a.en": "Go.\n", "a.de": "Los!\n", "b.de": "Da\n", "b.en": "There\n"})
    with pytest.raises(UserError, match=r"b.de: given as source, but de is the target"):
        Translation(data=tuple(paths[:2]), valid=tuple(paths[2:]), target="de").splits(0)
    with pytest.raises(UserError, match=r"b.en: is given twice"):
        Translation(data=tuple(paths[:2]), valid=tuple(paths[:1:-1]), test=tuple(paths[:1:-1]), target="de").splits(0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"source": "a", "source": "b", "target": "c"}', "'source' twice in an object"),
        ('{"target": "a", "translation": {"source": "b", "target": "c"}}', "'target' at the top and another in"),
    ],
)
def test_json_that_says_two_things_is_refused(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        read_pairs(*write(tmp_path, {"a.jsonl": f"{line}\n"}))
