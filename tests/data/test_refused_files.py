"""Files that are not understood completely are refused in a line: one table for every reason."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import pytest

from selfattn.data.corpus import CleaningOptions, read_corpus
from selfattn.data.pairs import Pair
from selfattn.data.readers.groups import refuse_swapped
from selfattn.data.readers.lines import (
    LearnedFile,
    checked_encoding,
    file_sha256,
    lines_of,
    read_text_lines,
    read_texts,
)
from selfattn.data.readers.pairs import PairFiles, read_pairs
from selfattn.data.readers.rows import read_column
from selfattn.errors import SettingError, UserError
from selfattn.tasks.translation import Translation

TEXTS = [(f"The café number {n}", f"Größe für Straße {n}") for n in range(60)]
PAIRS = [Pair(source, target) for source, target in TEXTS]
TSV = "".join(f"{source}\t{target}\n" for source, target in TEXTS)
BOOK = "september 27, 1994           _1994-09-27\n2/10/93                      _1993-02-10\n"
KOREAN = "영어,한국어\n" + "a dog,개가 있다\n" * 9
HEART = "a heart\tun c\u0153ur\n"


def write(folder, contents):
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return [folder / name for name in contents]


def in_zip(*names):
    def pack(data):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name in names:
                archive.writestr(name, data)
        return packed.getvalue()

    return pack


def in_tar(data):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("a.tsv")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue())


COLUMNS = "; save the file as UTF-8, or give `encoding` "
HEADINGS = "look like names of columns; give"
# The files, how they are to be read, and what the line says.
REFUSED = [
    # packing
    ({"moses.zip": in_zip("README", "a.en", "a.de")(b"x")}, {}, "2 files in the archive (a.en, a.de); unpack it"),
    ({"a.xlsx.zip": in_zip("[Content_Types].xml", "x.xml")(b"x")}, {}, "is a document of an office program; save it"),
    ({"a.tar.gz": in_tar(b"x")}, {}, "is a tar archive; unpack it"),
    ({"a.parquet": b"PAR1" + b"\0" * 50}, {}, "is parquet; read its folder with `hub`"),
    ({"a.tsv": gzip.compress(b"a\tb")}, {}, "a.tsv: packed with gzip; let its name end in .gz"),
    # encoding
    ({"a.tsv": TSV.replace("\n", "\r")}, {}, "its lines end in \\r alone"),
    ({"a.tsv": TSV.encode("utf-16-be")}, {}, f"UTF-16, not UTF-8{COLUMNS}utf-16-be"),
    ({"a.tsv": "a\tb".encode("utf-16-le")}, {}, f"UTF-16, not UTF-8{COLUMNS}utf-16-le"),
    ({"a.tsv": "行け\tgo\n".encode("iso2022_jp")}, {}, f"iso2022_jp, not UTF-8{COLUMNS}iso2022_jp"),
    ({"a.tsv": TSV.encode("utf-16")[:-1]}, {}, "not valid utf-16 (truncated data); save it as UTF-8"),
    ({"a.tsv": TSV.encode("latin-1")}, {}, f"not valid UTF-8{COLUMNS}cp1252"),
    ({"a.csv": b'"e\nn",\xff\na,b\n'}, {}, f"a.csv:1: not valid UTF-8{COLUMNS}"),
    ({"date.txt": b"a_b\n\xff_c\n"}, {}, "date.txt:2: not valid UTF-8; save"),
    ({"a.en": b"a\nb\n", "a.de": b"c\n\xff\n"}, {}, "a.de:2: not valid UTF-8; save"),
    ({"a.tsv": HEART.encode("cp1252")}, {"encoding": "latin-1"}, "it has the control character '\\x9c'"),
    ({"a.tsv": HEART.encode("utf-16-le")}, {"encoding": "latin-1"}, "it has the control character '\\x00'"),
    ({"a.tsv": HEART}, {"encoding": "utf-16"}, "not valid utf-16 (UTF-16 stream does not start with BOM)"),
    ({"a.tsv": HEART}, {"encoding": "utf-32"}, "not valid utf-32"),
    *(({"a.tsv": "a\tb"}, {"encoding": name}, f"{name}: unknown; expected one such as latin-1") for name in (
        "klingon", "rot13", "base64", "idna", "a\0b",
    )),
    # nothing in it, or no columns
    ({"a.tsv": ""}, {}, "a.tsv: the file is empty; give at least one line"),
    ({"blank.tsv": "\n \n"}, {}, "blank.tsv:2: 1 column(s) a line, so there is no column 2"),
    ({"head.csv": "source,target\n"}, {}, "head.csv: no pairs in it"),
    ({"a.txt": "no columns\n"}, {}, "neither TSV, CSV nor JSON lines; name it .tsv"),
    ({"a.txt": "a_b\n"}, {"columns": ("1", "2")}, "a.txt: neither TSV, CSV nor JSON lines"),
    ({"a.tsv": "one\ntwo\n"}, {}, "a.tsv:1: 1 column(s) a line, so there is no column 2"),
    ({"a.tsv": "a\tb\n"}, {"columns": ("1", "3")}, "a.tsv:1: 2 column(s) a line, so there is no column 3"),
    ({"a.tsv": "a\tb\n"}, {"columns": ("en", "ko")}, "a.tsv:1: no columns 'en' and 'ko'; choose with `columns`: 'a'"),
    *(({"a.csv": KOREAN.encode("cp949")}, {"columns": columns}, f"a.csv:1: not valid UTF-8{COLUMNS}cp949")
      for columns in (None, ("영어", "한국어"))),
    ({"a.csv": "영어,한국어\na,b\n".encode("cp949")}, {"columns": ("en", "ko"), "encoding": "cp949"},
     "no columns 'en' and 'ko'; choose with `columns`: '영어', '한국어'"),
    *(({"a.tsv": "en\tde\n" + TSV}, {"columns": columns}, f"both `columns` are {column}; give two different ones")
      for columns, column in ((("1", "01"), "number 1"), (("en", "EN"), "'en'"), (("en", " en"), "'en'"))),
    # headings, quotes and separators
    ({"a.tsv": "English\tGerman\na\tb\n"}, {}, f"a.tsv:1: 'English' and 'German' {HEADINGS}"),
    ({"a.tsv": "en\tko\na\tb\n"}, {}, "give `columns` en,ko, or 1,2 if this is a pair"),
    ({"a.tsv": "text_en\ttext_ko\na\tb\n"}, {}, f"'text_en' and 'text_ko' {HEADINGS}"),
    ({"a.tsv": "col1\tcol2\na\tb\n"}, {}, "give `columns` col1,col2, or 1,2 if this is a pair"),
    ({"a.csv": "source,target,source\na,b,c\n"}, {}, "2 columns are called 'source'; choose by number"),
    ({"a.tsv": '"a"\t"b"\n' * 20}, {}, "every cell is in quotes; name it .csv"),
    ({"a.tsv": 'x\ty\n"say ""a"""\t"""b"""\n'}, {}, 'quotes are doubled as in CSV ("say ""a"""); name it .csv'),
    ({"a.csv": "a, b;c\n" * 3}, {"columns": ("1", "2")}, "',' and ';' may both stand between cells; put a"),
    ({"a.txt": "a ||| b ||| c\n"}, {}, "a.txt:1: 3 texts between |||, not 2"),
    ({"moves.txt": "run I_RUN\nrun twice I_RUN I_RUN\n"}, {}, "several underscores in a line"),
    ({"date.txt": BOOK + "3/4/05 2005-03-04\n"}, {}, "date.txt:3: no separator (_) between input and target"),
    ({"date.txt": BOOK + "3/4/05  _\n"}, {}, "date.txt:3: the source or the target is empty"),
    ({"tasks.txt": "IN: run OUT: I_RUN\nOUT: x\n"}, {}, "tasks.txt:2: no IN: source OUT: target"),
    ({"a.txt": "#separator:tab\n#html:true\n<b>a</b>\tb\n"}, {}, "HTML in the note; export without HTML"),
    ({"a.txt": "#separator:tabs\na\tb\n"}, {}, "separator 'tabs' is unknown; export with tabs"),
    ({"a.txt": "#separator:tab\n#unknown:1\na\tb\n"}, {}, "a.txt:2: not understood, of Anki's export"),
    # JSON
    ({"a.json": '[{"source": "a", "target": "b"}]'}, {}, "a JSON array; write one object a line"),
    ({"a.json": '{"data": [{"source": "a", "target": "b"}]}\n'}, {}, "the records stand in a list, 'data'; write"),
    ({"a.jsonl": '{\n  "source": "a",\n  "target": "b"\n}\n'}, {}, "JSON objects over several lines; write one"),
    ({"a.json": '{"data": [\n{"source": "a", "target": "b"}\n]}\n'}, {}, "JSON objects over several"),
    ({"a.jsonl": '{"translation": {"en": "a", "ko": "b"}, "id": 1}'}, {}, "with `columns`: 'id', 'en', 'ko'"),
    ({"a.jsonl": '{"source": "a", "source": "b", "target": "c"}\n'}, {}, "'source' twice in an object"),
    ({"a.jsonl": '{"target": "a", "translation": {"source": "b", "target": "c"}}\n'}, {}, "'target' at the top and a"),
    # tags
    ({"a.tsv": "a\t1\tx\n"}, {"tag": "4"}, "a.tsv:1: 3 column(s) a line, so there is no column 4 (`tag`)"),
    ({"a.tsv": "a\t1\tx\n"}, {"tag": "kind"}, "a.tsv:1: the first line names no columns, so there is no 'kind'"),
    ({"a.tsv": "source\ttarget\tk\na\t1\tx\n"}, {"tag": "kind"}, "a.tsv:1: 0 columns are called 'kind' (`tag`)"),
    ({"a.tsv": "source\ttarget\tk\tk\na\t1\tx\tx\n"}, {"tag": "k"}, "a.tsv:1: 2 columns are called 'k'"),
    ({"a.en": "x\ny\n", "a.ko": "p\nq\n"}, {"tag": "3"}, "`tag` is for files of pairs"),
    ({"date.txt": BOOK}, {"tag": "3"}, "`tag` is for tables and JSON lines"),
    # several files
    ({"a.en": "a\nb\n", "a.de": "c\n"}, {}, "a.en has 2 lines and"),
    ({"a.en": "a\n\n", "a.de": "c\nd\n"}, {}, "a.de:2: the source or the target is empty; mend the line"),
    ({"a.en": "Go.\nHi.\n", "a.de": "Los.\n \n", "b.en.txt": "Run!\n", "b.de.txt": "Lauf!\n"}, {},
     ":2: the source or the target is empty"),
    ({"a.tsv": "a\tb\n", "b.de": "c\n"}, {}, "a.tsv holds pairs by itself, "),
    ({"a.en": "a\n", "a.de": "b\n", "b.en": "c\n"}, {}, "3 files of one side each (a.en, a.de, b.en)"),
    ({"part1.en": "a\n", "part2.en": "b\n"}, {}, "a source and a target end in .en (part1.en, part2.en)"),
    ({"a.en": "a\n", "b.en": "b\n", "a.de": "c\n", "b.de": "d\n"}, {}, "a source and a target end in ."),
    ({f"{n}.txt": f"{n}\n" for n in range(4)}, {}, "the names do not tell sources from targets"),
    ({"a.txt": "a\tb\n" + "c\n" * 9, "b.txt": "d\n" * 10}, {}, "a tab in 1 of its first 10 lines; name it .tsv"),
    ({"a.en": "a\tb\n", "a.de": "c\td\n"}, {}, "a tab in all of its first 1 line, so they may be pairs"),
    ({"a.txt": "the_DT cat_NN\na_DT\n", "b.txt": "x_Y\n"}, {}, "an underscore in all of its first 2 lines"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "options", "message"), REFUSED, ids=[message[:50] for _, _, message in REFUSED])
def test_what_is_not_understood_is_said_in_a_line(tmp_path, files, options, message):
    paths = write(tmp_path, files)
    with pytest.raises(UserError) as error:
        read_pairs(*paths, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "; " in str(error.value) or ", so" in str(error.value) or "tag" in options  # and what to do


PACKINGS = {
    "a.tsv.gz": gzip.compress,
    "a.TSV.GZ": gzip.compress,
    "a.txt.bz2": bz2.compress,
    "a.tsv.xz": lzma.compress,
    "fra-eng.zip": in_zip("_about.txt", "fra.txt"),
}


@pytest.mark.parametrize("name", PACKINGS)
def test_packed_files_are_read_and_damaged_ones_refused(tmp_path, name):
    packed = PACKINGS[name](TSV.encode())
    assert read_pairs(*write(tmp_path, {name: packed})) == PAIRS
    torn = packed[: len(packed) // 2] + b"?" * 40 + packed[len(packed) // 2 :]
    for damaged in (packed[:-20], b"plain\ttext\n", torn):
        with pytest.raises(UserError, match=r"not a whole (gzip|bzip2|xz|zip) file \(.*; fetch or pack it again"):
            read_pairs(*write(tmp_path, {name: damaged}))
    with pytest.raises(UserError, match=r"packed with (gzip|bzip2|xz|zip); let its name end in \.(gz|bz2|xz|zip)"):
        read_pairs(*write(tmp_path, {"a.tsv": packed}))


def test_files_that_are_not_there(tmp_path):
    for path, message in ((tmp_path / "none", "no such file"), (tmp_path, "Is a directory")):
        for read in (lambda path: list(lines_of(path)), file_sha256):
            with pytest.raises(UserError, match=message):
                read(path)
    with pytest.raises(SettingError, match=r"`encoding` : unknown; expected one such as latin-1"):
        checked_encoding("")


SGML = '<refset setid="a" srclang="any" trglang="de">\n<doc sysid="ref" docid="1">\n<seg id="1">Ja.</seg>\n</doc>\n'
DOCUMENTS = {
    "test.de.sgm": (SGML, "SGML or XML with segments; write the text of each <seg>"),
    "IWSLT.en-de.en.xml": (f'<?xml version="1.0"?>\n<mteval>\n{SGML}', "SGML or XML with segments"),
    "doc.en": ('<doc docid="1" genre="news">\n<seg id="1">Yes.</seg>\n', "SGML or XML with segments"),
    "train.tags.en": ("<url>http://a.b/c</url>\n<keywords>a</keywords>\nYes.\n", "a file with tags, as train.tags of"),
    "film.srt": ("1\n00:00:01,000 --> 00:00:02,500\nYes.\n\n2\n", "subtitles with times"),
    "film.vtt": ("WEBVTT\n\n00:01.000 --> 00:04.000\nYes.\n", "subtitles with times"),
    "film.en": ("\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\nYes.\r\n", "subtitles with times"),
    "memory.tmx": ('<?xml version="1.0"?>\n<tmx version="1.4">\n', "a translation memory (TMX); write its pairs as"),
    "a.xlf": ('<xliff version="1.2">\n', "XLIFF; write its pairs as TSV"),
    "ko.po": ('# Korean\nmsgid ""\nmsgstr ""\n', "a catalogue of gettext (PO); write its pairs as TSV"),
    "page.txt": ("<!DOCTYPE html>\n<html>\n", "a document in XML or HTML"),
    "book.xlsx": ("PK\x03\x04\x14\0\x06\0\x08\0\0\0[Content_Types].xml", "a document of an office program"),
    "book.ods": ("PK\x03\x04mimetypeapplication/vnd.oasis.opendocument", "a document of an office program"),
}
READERS = (
    read_pairs, lambda path: PairFiles((path, path.with_name("other.tsv"))).groups, lambda path: list(lines_of(path)),
    read_text_lines, read_texts, lambda path: read_column(path, "1"), LearnedFile.learn,
)  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_with_markup_are_refused_by_name_in_every_reader(tmp_path, name):
    text, message = DOCUMENTS[name]
    write(tmp_path, {name: text, "other.tsv": "a\tb\n"})
    for read in READERS:
        with pytest.raises(UserError) as error:
            read(tmp_path / name)
        assert f"{name}: is {message}" in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["<b>Yes</b>\tJa\n", "<url>\t<url>\n", "1\t00:00:01,000 -->\n", "see <doc a=1>\tb\n", "#: a\nmsgid\tb\n"]
)
def test_texts_with_tags_in_them_are_texts(tmp_path, text):
    assert PairFiles(tuple(write(tmp_path, {"a.tsv": text}))).num_lines == text.count("\n")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Größe\tStraße é\n", "cp1252"),
        ("water\tüber für grün\n", "cp1252"),  # and many others, which nobody has
        ("한국어 문장이다\t둘째 문장\n", "cp949"),
        ("これは文です\t二つ目の文だ\n", "cp932"),
    ],
)
def test_another_encoding_stops_a_training_and_is_read_if_it_is_named(tmp_path, text, encoding):
    (path,) = write(tmp_path, {"a.tsv": ("plain\ttext\n" * 7 + text).encode(encoding) * 9})
    files = {"train": PairFiles((path,))}
    for read in (lambda: read_pairs(path), lambda: read_corpus(files, ("a", "b"), cleaning=CleaningOptions())):
        with pytest.raises(UserError, match=f"not valid UTF-8; save the file as UTF-8, or give `encoding` {encoding}"):
            read()
    assert read_pairs(path, encoding=encoding)[7] == Pair(*text.rstrip().split("\t"))
    path.write_text(text)
    with pytest.raises(UserError, match=rf"is UTF-8, not {encoding}; leave `encoding` out"):
        read_pairs(path, encoding=encoding)


def kept(*paths):
    """Read a corpus, with one pair for validation and test; return the number of its training pairs."""
    held_out = PairFiles(tuple(write(paths[0].parent, {"v.tsv": "v\tw\n"})))
    files = {"train": PairFiles(paths), "valid": held_out, "test": held_out}
    return len(read_corpus(files, ("a", "b"), cleaning=CleaningOptions()).parts["train"])


def test_a_bad_line_is_left_out_but_not_a_tenth_of_the_file(tmp_path):
    assert kept(*write(tmp_path, {"a.tsv": TSV + "broken\n" * 5})) == 60
    with pytest.raises(UserError, match=r"a\.tsv:61: 1 column\(s\), not 2; 9 of 69 lines are broken"):
        kept(*write(tmp_path, {"a.tsv": TSV + "broken\n" * 9}))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("same\tgleich\n" * 500, r"\(500 read; duplicate: 499 \(first a\.tsv:2\); different sources: 1, targets: 1"),
        (TSV.replace("\t", "\tCC-BY\t"), r"of 60 pairs .* \(60 read; different sources: 60, targets: 1\)"),
        ("a\t\tb\n" * 3, r"empty: 3 .*; a\.tsv: TSV, columns 1 and 2 of 3 "),
    ],
)
def test_too_few_pairs_say_why(tmp_path, data, message):
    files = {"train": PairFiles(tuple(write(tmp_path, {"a.tsv": data})))}
    with pytest.raises(UserError, match=message):
        read_corpus(files, ("a", "b"), cleaning=CleaningOptions())


def test_a_file_is_not_given_twice(tmp_path):
    path, other = write(tmp_path, {"a.tsv": "a\tb\n", "further/b.tsv": "c\td\n"})
    copies = write(tmp_path, {"copy.tsv": path.read_bytes(), "packed.tsv.gz": gzip.compress(path.read_bytes())})
    (tmp_path / "link.tsv").symlink_to(path)
    (tmp_path / "hard.tsv").hardlink_to(path)
    again = [path, tmp_path / "further" / ".." / "a.tsv", *(tmp_path / f"{name}.tsv" for name in ("link", "hard"))]
    for seconds, message in ((again, r"is given twice.*; leave it out once"), (copies, r"has the same content as .*a")):
        for second in seconds:
            with pytest.raises(UserError, match=message):
                _ = PairFiles((path, other, second)).groups


def test_sides_that_names_turn_round_are_refused(tmp_path):
    paths = write(tmp_path, {"a.ko": "가\n", "a.en": "Go.\n", "b.tgt": "c\n", "b.src": "d\n"})
    for turned, languages in ((paths[:2], ("en", "ko")), (paths[:2], ("English", "kor")), (paths[2:], None)):
        with pytest.raises(UserError, match=r"given as source, but .* is the target; turn them round"):
            refuse_swapped(turned, languages=languages)
        refuse_swapped(turned[::-1], languages=languages)
    with pytest.raises(UserError, match="`columns` en: given as target, but it is the source"):
        refuse_swapped([], ("x", "en"), ("en", "de"))
    for columns, known in ((("2", "1"), ("en", "de")), (("en", "de"), ("en", "en")), (("de", "en"), None)):
        refuse_swapped([tmp_path / "a.tsv"], columns, known)


def test_a_training_refuses_what_its_files_cannot_be(tmp_path):
    """Turned sides, a test that chose the weights, and parallel files of other lengths, streamed or not."""
    paths = write(tmp_path, {"a.en": "Go.\n", "a.de": "Los!\n", "b.de": "Da\n", "b.en": "There\n"})
    with pytest.raises(UserError, match=r"b.de: given as source, but de is the target"):
        Translation(data=tuple(paths[:2]), valid=tuple(paths[2:]), target="de").splits(0)
    held_out = {"valid": tuple(paths[:1:-1]), "test": tuple(paths[:1:-1])}
    with pytest.raises(UserError, match=r"b.en: is given twice"):
        Translation(data=tuple(paths[:2]), target="de", **held_out).splits(0)
    held_out["test"] = tuple(write(tmp_path, {"c.en": "a\n", "c.de": "b\n"}))
    data = tuple(write(tmp_path, {"train.en": "a\n" * 200, "train.de": "b\n" * 201}))
    for streaming in (False, True):
        with pytest.raises(UserError, match=r"train\.en has 200 lines and .*train\.de 201; parallel files need"):
            Translation(target="de", data=data, streaming=streaming, **held_out).splits(0)
