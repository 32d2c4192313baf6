"""A file is understood completely or refused in a line: how it is packed, its encoding, its separators and headings."""

import bz2
import gzip
import io
import lzma
import random
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from selfattn.data.corpus import CleaningOptions, read_corpus
from selfattn.data.pairs import Pair
from selfattn.data.readers.lines import checked_encoding, read_texts
from selfattn.data.readers.pairs import PairFiles, read_pairs
from selfattn.errors import SettingError, UserError

TEXTS = [(f"The café number {n}", f"Größe für Straße {n}") for n in range(60)]
PAIRS = [Pair(source, target) for source, target in TEXTS]
TSV = "".join(f"{source}\t{target}\n" for source, target in TEXTS)


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def in_zip(*names: str) -> Callable[[bytes], bytes]:
    def pack(data: bytes) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name in names:
                archive.writestr(name, data)
        return packed.getvalue()

    return pack


def in_tar(data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("a.tsv")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)  # the bytes are a part of the test's name


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "a.tsv.gz": gzip.compress,
    "a.TSV.GZ": gzip.compress,
    "a.txt.bz2": bz2.compress,
    "a.tsv.xz": lzma.compress,
    "fra-eng.zip": in_zip("_about.txt", "fra.txt"),
}


@pytest.mark.parametrize("name", PACKINGS)
def test_packed_files_are_read_and_damaged_ones_refused(tmp_path: Path, name: str) -> None:
    packed = PACKINGS[name](TSV.encode())
    assert read_pairs(write(tmp_path / name, packed)) == PAIRS
    for damaged in (
        packed[:-20],
        b"plain\ttext\n",
        packed[: len(packed) // 2] + b"?" * 40 + packed[len(packed) // 2 :],
    ):
        with pytest.raises(UserError, match=r"not a whole (gzip|bzip2|xz|zip) file \(.*; fetch or pack it again"):
            read_pairs(write(tmp_path / name, damaged))
    with pytest.raises(UserError, match=r"packed with (gzip|bzip2|xz|zip); let its name end in \.(gz|bz2|xz|zip)"):
        read_pairs(write(tmp_path / "a.tsv", packed))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("moses.zip", in_zip("README", "a.en", "a.de")(b"x"), "2 files in the archive (a.en, a.de); unpack it"),
        (
            "a.xlsx.zip",
            in_zip("[Content_Types].xml", "x.xml")(b"x"),
            "is a document of an office program; save it as CSV",
        ),
        ("a.tar.gz", in_tar(b"x"), "is a tar archive; unpack it"),
        ("a.parquet", b"PAR1" + b"\0" * 50, "is parquet; read its folder with `hub`"),
        ("a.json", '[{"source": "a", "target": "b"}]', "a JSON array; write one object a line"),
        ("a.tsv", TSV.replace("\n", "\r"), "its lines end in \\r alone"),
        ("a.tsv", TSV.encode("utf-16-be"), "UTF-16, not UTF-8; save the file as UTF-8, or give `encoding` utf-16-be"),
        (
            "a.tsv",
            "行け\tgo\n".encode("iso2022_jp"),
            "iso2022_jp, not UTF-8; save the file as UTF-8, or give `encoding`",
        ),
        ("a.tsv", TSV.encode("utf-16")[:-1], "not valid utf-16 (truncated data); save it as UTF-8"),
        ("a.tsv", TSV.encode("latin-1"), "not valid UTF-8; save the file as UTF-8, or give `encoding` cp1252"),
        ("a.tsv", '"a"\t"b"\n' * 20, "every cell is in quotes; name it .csv"),
        ("moves.txt", "run I_RUN\nrun twice I_RUN I_RUN\n", "several underscores in a line"),
        ("a.tsv", "English\tGerman\na\tb\n", "a.tsv:1: 'English' and 'German' look like names of columns; give"),
        ("a.tsv", "en\tko\na\tb\n", "give `columns` en,ko, or 1,2 if this is a pair"),
        ("a.csv", "source,target,source\na,b,c\n", "2 columns are called 'source'; choose by number"),
        ("a.txt", "#separator:tab\n#html:true\n<b>a</b>\tb\n", "HTML in the note; export without HTML"),
        ("a.txt", "#separator:tabs\na\tb\n", "separator 'tabs' is unknown; export with tabs"),
        ("a.txt", "#separator:tab\n#unknown:1\na\tb\n", "a.txt:2: not understood, of Anki's export"),
        ("a.tsv", 'x\ty\n"say ""a"""\t"""b"""\n', 'quotes are doubled as in CSV ("say ""a"""); name it .csv'),
        ("a.tsv", "text_en\ttext_ko\na\tb\n", "'text_en' and 'text_ko' look like names of columns"),
        ("a.tsv", "col1\tcol2\na\tb\n", "give `columns` col1,col2, or 1,2 if this is a pair"),
        ("a.txt", "a ||| b ||| c\n", "a.txt:1: 3 texts between |||, not 2"),
    ],
)
def test_what_is_not_understood_is_refused_in_a_line(
    tmp_path: Path, name: str, data: str | bytes, message: str
) -> None:
    path = write(tmp_path / name, data)
    with pytest.raises(UserError) as error:
        read_pairs(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "data", "columns"),
    [
        *((f"{mark}.csv", TSV.replace("\t", mark), ("1", "2")) for mark in ",;|\t" if mark != "\t"),
        ("semicolon.csv", "source;target\n" + TSV.replace("\t", ";"), None),
        ("tab.CSV", "Source\tTarget\n" + TSV, None),
        ("excel.csv", "sep=|\nsource|target\n" + TSV.replace("\t", "|"), None),
        ("quoted.csv", 'en;de\n"' + TSV.replace("\t", '";"').replace("\n", '"\n"')[:-1], ("EN", "De")),
        ("heading.tsv", "Source\tTARGET\n" + TSV, None),
        ("named.tsv", "English\tGerman\n" + TSV, ("English", "German")),
        ("a.txt", "#separator:tab\n#html:false\n" + TSV, None),
        ("b.txt", "#separator:Comma\n#guid column:1\n" + "".join(f'7,"{a}",{b}\n' for a, b in TEXTS), None),
        (
            "c.txt",
            "#separator:tab\n#columns:Tags\tDe\tEn\n" + "".join(f"x\t{b}\t{a}\n" for a, b in TEXTS),
            ("En", "De"),
        ),
        ("fast.align", TSV.replace("\t", " ||| "), None),
        ("upper.JSONL", "".join(f'{{"source": "{a}", "target": "{b}"}}\n' for a, b in TEXTS), None),
    ],
)
def test_separators_headings_and_endings_are_understood(
    tmp_path: Path, name: str, data: str, columns: tuple[str, str] | None
) -> None:
    assert read_pairs(write(tmp_path / name, data), columns=columns) == PAIRS


def test_what_may_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a, b;c\n" * 3)
    with pytest.raises(UserError, match="',' and ';' may both stand between cells; put a line such as sep=; in front"):
        read_pairs(path, columns=("1", "2"))
    assert read_pairs(write(path, "sep=;\na, b;c\n"), columns=("1", "2")) == [Pair("a, b", "c")]
    named = write(tmp_path / "a.tsv", "en\tde\n" + TSV)
    for columns, column in ((("1", "01"), "number 1"), (("en", "EN"), "'en'"), (("en", " en"), "'en'")):
        with pytest.raises(SettingError, match=f"both `columns` are {column}; give two different ones"):
            read_pairs(named, columns=columns)


@pytest.mark.parametrize(
    ("written", "read", "message"),
    [
        ("cp1252", "latin-1", "read as iso8859-1, it has the control character '\\x9c'"),
        ("utf-16-le", "latin-1", "read as iso8859-1, it has the control character '\\x00'"),
        ("utf-8", "utf-16", "not valid utf-16 (UTF-16 stream does not start with BOM)"),
        ("utf-8", "utf-32", "not valid utf-32"),
    ],
)
def test_a_wrong_encoding_is_refused_where_the_text_shows_it(
    tmp_path: Path, written: str, read: str, message: str
) -> None:
    path = write(tmp_path / "a.tsv", "a heart\tun c\u0153ur\n".encode(written))
    with pytest.raises(UserError, match=re.escape(message)):
        read_pairs(path, encoding=checked_encoding(read))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_byte_order_mark_says_the_encoding(tmp_path: Path, encoding: str) -> None:
    assert read_pairs(write(tmp_path / "a.tsv", TSV.encode(encoding))) == PAIRS
    assert read_texts(write(tmp_path / "a.txt", "Größe\n".encode(encoding))) == ["Größe"]
    with pytest.raises(UserError, match=r"begins with the mark of UTF-.*, so it is not cp1252; convert the file"):
        read_pairs(tmp_path / "a.tsv", encoding="cp1252")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Größe\tStraße é\n", "cp1252"),
        ("water\tüber für grün\n", "cp1252"),  # and many others, which nobody has
        ("한국어 문장이다\t둘째 문장\n", "cp949"),
        ("これは文です\t二つ目の文だ\n", "cp932"),
    ],
)
def test_a_file_in_another_encoding_stops_a_training_and_is_read_if_it_is_named(
    tmp_path: Path, text: str, encoding: str
) -> None:
    path = write(tmp_path / "a.tsv", ("plain\ttext\n" * 7 + text).encode(encoding) * 9)
    for read in (
        lambda: read_pairs(path),
        lambda: read_corpus({"train": PairFiles((path,))}, ("a", "b"), cleaning=CleaningOptions()),
    ):
        with pytest.raises(UserError, match=f"not valid UTF-8; save the file as UTF-8, or give `encoding` {encoding}"):
            read()
    source, target = text.rstrip().split("\t")
    assert read_pairs(path, encoding=encoding)[7] == Pair(source, target)
    write(path, text.encode())
    with pytest.raises(UserError, match=rf"is UTF-8, not {encoding}; leave `encoding` out"):
        read_pairs(path, encoding=encoding)


def test_encodings_that_there_are_not() -> None:
    for name in ("klingon", "rot13", "base64", "idna", "", "a\0b"):
        with pytest.raises(SettingError, match=r"`encoding` .*: unknown; expected one such as latin-1"):
            checked_encoding(name)


def test_a_bad_line_is_left_out_but_not_a_tenth_of_the_file(tmp_path: Path) -> None:
    def kept(lines: str) -> int:
        held_out = PairFiles((write(tmp_path / "v.tsv", "v\tw\n"),))
        files = {"train": PairFiles((write(tmp_path / "a.tsv", lines),)), "valid": held_out, "test": held_out}
        corpus = read_corpus(files, ("a", "b"), cleaning=CleaningOptions())
        return len(corpus.parts["train"])

    assert kept(TSV + "broken\n" * 5) == 60
    with pytest.raises(UserError, match=r"a\.tsv:61: 1 column\(s\), not 2; 9 of 69 lines are broken"):
        kept(TSV + "broken\n" * 9)


def test_too_few_pairs_say_why(tmp_path: Path) -> None:
    def read(data: str) -> None:
        files = {"train": PairFiles((write(tmp_path / "a.tsv", data),))}
        read_corpus(files, ("a", "b"), cleaning=CleaningOptions())

    with pytest.raises(
        UserError, match=r"\(500 read; duplicate: 499 \(first a\.tsv:2\); different sources: 1, targets: 1"
    ):
        read("same\tgleich\n" * 500)
    with pytest.raises(UserError, match=r"of 60 pairs .* \(60 read; different sources: 60, targets: 1\)"):
        read("".join(f"{source}\tCC-BY\t{target}\n" for source, target in TEXTS))
    with pytest.raises(UserError, match=r"empty: 3 .*; a\.tsv: TSV, columns 1 and 2 of 3 "):
        read("a\t\tb\n" * 3)
    assert PairFiles((write(tmp_path / "a.csv", "id;target;source\n1;b;a\n"),)).about() == [
        "a.csv: CSV, columns 'source' and 'target' of 3 (others can be chosen), first pair 'a' → 'b'"
    ]


@pytest.mark.parametrize("count", [200, pytest.param(5_000, marks=pytest.mark.reliability)])
def test_damaged_files_are_read_or_refused_in_a_line(tmp_path: Path, count: int) -> None:
    chance = random.Random(0)
    files = {name: pack(TSV.encode()) for name, pack in PACKINGS.items()}
    files |= {"a.tsv": TSV.encode(), "a.csv": b"source;target\n" + TSV.replace("\t", ";").encode()}
    files |= {"u.txt": TSV.encode("utf-16"), "n.txt": b"#separator:tab\n#html:true\n" + TSV.encode()}
    files |= {"j.json": b'{"source": "a", "target": "b"}\n' * 9, "b.txt": b"a b   _c d\n" * 9}
    encodings = (None, "iso8859-1", "cp949", "utf-16-le", "utf-7", "iso2022_jp", "hz")
    outcomes = {True: 0, False: 0}
    bad: list[str] = []
    for _ in range(count):
        chosen = chance.sample(sorted(files), chance.choice((1, 1, 2)))
        paths = []
        for name in chosen:
            data = bytearray(files[name])
            for _ in range(chance.choice((0, 1, 3, 30))):
                place = chance.randrange(len(data) + 1)
                data[place : place + chance.choice((1, 1, 9))] = chance.randbytes(chance.choice((0, 1, 2)))
            paths.append(write(tmp_path / name, bytes(data)))
        columns = chance.choice((None, None, ("1", "2"), ("source", "target"), ("2", "9")))
        try:
            read_pairs(*paths, columns=columns, encoding=chance.choice(encodings))
            outcomes[True] += 1
        except UserError as error:
            bad += [str(error)] if "\n" in str(error) or not str(error).strip() else []
            outcomes[False] += 1
    assert not bad
    assert min(outcomes.values()) > 0, outcomes
