"""Files of pairs are opened twice, say what they are, and know themselves again; documents with markup are refused."""

import json
import pickle
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import LearnedFile, lines_of, read_text_lines, read_texts
from selfattn.data.readers.pairs import PairFiles, read_pairs
from selfattn.data.readers.rows import read_column
from selfattn.errors import SettingError, UserError
from selfattn.tasks.dates import Dates
from selfattn.tasks.translation import Translation

TEXTS = [(f"The café number {n}", f"Größe für Straße {n}") for n in range(300)]
OPENED: Counter[str] = Counter()
HOOKED: list[bool] = []


def count_opens() -> Counter[str]:
    """Count how often each file is opened from now on. A hook cannot be taken off, so there is one for all tests."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            OPENED[str(arguments[0])] += 1

    if not HOOKED:
        sys.addaudithook(hook)
        HOOKED.append(True)
    OPENED.clear()
    return OPENED


def parallel(folder: Path, name: str, start: int, stop: int, ending: str = "") -> tuple[Path, Path]:
    paths = (folder / f"{name}.en{ending}", folder / f"{name}.de{ending}")
    for side, path in enumerate(paths):
        path.write_text("".join(f"{texts[side]}\n" for texts in TEXTS[start:stop]), encoding="utf-8")
    return paths


@pytest.mark.parametrize("streaming", [False, True])
def test_each_file_of_a_corpus_is_opened_twice_before_training(tmp_path: Path, streaming: bool) -> None:
    parts = {
        "data": parallel(tmp_path, "train", 0, 280),
        "valid": parallel(tmp_path, "valid", 280, 290),
        "test": parallel(tmp_path, "test", 290, 300),
    }
    opened = count_opens()
    task = Translation(target="de", streaming=streaming, tokenizer="characters", keep_duplicates=False, **parts)
    task.recipe(quick=False)
    splits = task.splits(0)
    task.tokenizer(splits)
    passes = 2 + 2 * streaming  # a stream is read for its length ratio, for the vocabulary, and then in every epoch
    for part, paths in parts.items():
        for path in paths:
            assert 1 < opened[str(path)] <= (passes if part == "data" else 2), path


def test_dates_of_a_file_are_opened_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in TEXTS), encoding="utf-8")
    opened = count_opens()
    splits = Dates(data=path).splits(0)
    assert len(splits.test(None)) == 30
    assert opened[str(path)] == 2


@pytest.mark.parametrize("streaming", [False, True])
def test_parallel_files_of_other_lengths_are_refused_before_training(tmp_path: Path, streaming: bool) -> None:
    source, target = parallel(tmp_path, "train", 0, 200)
    target.write_text(target.read_text("utf-8") + "one more\n", encoding="utf-8")
    held_out = {"valid": parallel(tmp_path, "v", 200, 210), "test": parallel(tmp_path, "t", 210, 220)}
    with pytest.raises(UserError, match=r"train\.en has 200 lines and .*train\.de 201; parallel files need as many"):
        Translation(target="de", data=(source, target), streaming=streaming, **held_out).splits(0)


def test_files_record_themselves_and_are_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "id\ten\tde\n" + "".join(f"{n}\t{a}\t{b}\n" for n, (a, b) in enumerate(TEXTS))
    Path("a.tsv").write_text(text, encoding="cp1252")
    files = PairFiles((Path("a.tsv"),), ("en", "de"), "CP1252", "id")
    settings = json.loads(json.dumps(files.settings))
    assert settings == {
        "files": [{"path": "a.tsv", "sha256": LearnedFile.learn(Path("a.tsv"), "cp1252").sha256}],
        "columns": ["en", "de"],
        "encoding": "cp1252",
        "tag": "id",
    }
    assert PairFiles.from_settings(settings) == files
    assert pickle.loads(pickle.dumps(files)) == files
    Path("b.tsv").write_bytes(Path("a.tsv").read_bytes())
    copy = PairFiles((Path("b.tsv"),))
    assert copy.are_those_of(settings)
    assert copy.read_as({"sources": {"train": settings}}) == PairFiles(copy.paths, ("en", "de"), "cp1252")
    assert copy.read_as({}) == copy
    assert [(pair.source, pair.target) for pair in files.read()] == TEXTS
    Path("b.tsv").write_text("other\ttext\n")
    assert not PairFiles((Path("b.tsv"),)).are_those_of(settings)


def test_old_runs_for_dates_are_known_again() -> None:
    old = {"path": "a.en", "sha256": "0", "target_path": "a.de", "target_sha256": "1", "encoding": "cp949"}
    old |= {"further_files": [{"path": "b.en", "sha256": "2"}], "columns": None}  # type: ignore[dict-item]
    assert PairFiles.from_settings(old) == PairFiles((Path("a.en"), Path("a.de"), Path("b.en")), None, "cp949")


SGML = '<refset setid="a" srclang="any" trglang="de">\n<doc sysid="ref" docid="1">\n<seg id="1">Ja.</seg>\n</doc>\n'
DOCUMENTS = {
    "test.de.sgm": (SGML, "SGML or XML with segments; write the text of each <seg>"),
    "IWSLT.en-de.en.xml": (f'<?xml version="1.0"?>\n<mteval>\n{SGML}', "SGML or XML with segments"),
    "doc.en": ('<doc docid="1" genre="news">\n<seg id="1">Yes.</seg>\n', "SGML or XML with segments"),
    "train.tags.en-de.en": (
        "<url>http://a.b/c</url>\n<keywords>a</keywords>\nYes.\n",
        "a file with tags, as train.tags of",
    ),
    "film.srt": ("1\n00:00:01,000 --> 00:00:02,500\nYes.\n\n2\n", "subtitles with times"),
    "film.vtt": ("WEBVTT\n\n00:01.000 --> 00:04.000\nYes.\n", "subtitles with times"),
    "film.en": ("\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\nYes.\r\n", "subtitles with times"),
    "memory.tmx": (
        '<?xml version="1.0"?>\n<tmx version="1.4">\n',
        "a translation memory (TMX); write its pairs as",
    ),
    "a.xlf": ('<xliff version="1.2">\n', "XLIFF; write its pairs as TSV"),
    "ko.po": ('# Korean\nmsgid ""\nmsgstr ""\n', "a catalogue of gettext (PO); write its pairs as TSV"),
    "page.txt": ("<!DOCTYPE html>\n<html>\n", "a document in XML or HTML"),
    "book.xlsx": ("PK\x03\x04\x14\0\x06\0\x08\0\0\0[Content_Types].xml", "a document of an office program"),
    "book.ods": ("PK\x03\x04mimetypeapplication/vnd.oasis.opendocument", "a document of an office program"),
}
READERS: dict[str, Callable[[Path], object]] = {
    "pairs": read_pairs,
    "several files": lambda path: PairFiles((path, path.with_name("other.tsv"))).groups,
    "lines": lambda path: list(lines_of(path)),
    "text lines": read_text_lines,
    "texts": read_texts,
    "a column": lambda path: read_column(path, "1"),
    "what it is": LearnedFile.learn,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_with_markup_are_refused_by_name_in_every_reader(tmp_path: Path, name: str, reader: str) -> None:
    text, message = DOCUMENTS[name]
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    (tmp_path / "other.tsv").write_text("a\tb\n")
    with pytest.raises(UserError) as error:
        READERS[reader](tmp_path / name)
    assert f"{name}: is {message}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["<b>Yes</b>\tJa\n", "<url>\t<url>\n", "1\t00:00:01,000 -->\n", "see <doc a=1>\tb\n", "#: a\nmsgid\tb\n"]
)
def test_texts_with_tags_in_them_are_texts(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.tsv").write_text(text)
    assert PairFiles((tmp_path / "a.tsv",)).num_lines == text.count("\n")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"data": [{"source": "a", "target": "b"}]}\n', "the records stand in a list, 'data'; write one a"),
        ("a.jsonl", '{\n  "source": "a",\n  "target": "b"\n}\n', "JSON objects over several lines; write one object a"),
        ("a.json", '{"data": [\n{"source": "a", "target": "b"}\n]}\n', "JSON objects over several"),
        ("a.jsonl", '[{"source": "a", "target": "b"}]', "a JSON array; write one object a line"),
    ],
)
def test_json_that_is_no_object_a_line_says_what_to_do(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as error:
        read_pairs(tmp_path / name)
    assert message in str(error.value)


@pytest.mark.parametrize("columns", [None, ("영어", "한국어")])
def test_headings_in_another_encoding_name_it(tmp_path: Path, columns: tuple[str, str] | None) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("영어,한국어\n".encode("cp949") + "a dog,개가 있다\n".encode("cp949") * 9)
    with pytest.raises(UserError, match=r"a\.csv:1: not valid UTF-8; save the file as UTF-8, or give `encoding` cp949"):
        read_pairs(path, columns=columns)
    assert read_pairs(path, columns=("영어", "한국어"), encoding="cp949")[0] == Pair("a dog", "개가 있다")
    with pytest.raises(SettingError, match="no columns 'en' and 'ko'; choose with `columns`: '영어', '한국어'"):
        read_pairs(path, columns=("en", "ko"), encoding="cp949")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp949"])
def test_the_first_lines_are_cut_at_a_line(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfattn.data.readers.lines._HEAD_BYTES", 37)
    lines = [f"하나 {n}" for n in range(99)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding=encoding)
    file = LearnedFile.learn(tmp_path / "a.txt", "cp949" if encoding == "cp949" else None)
    assert file.count == 99
    assert 1 < len(file.head) < 9
    assert list(file.head) == lines[: len(file.head)]
