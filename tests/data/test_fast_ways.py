"""What makes reading a large corpus fast changes nothing: each fast way against the plain one."""

import gc
import gzip
import hashlib
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.data.corpus import CleaningOptions, loose, read_corpus
from selfattn.data.readers.lines import LearnedFile, checked_encoding, lines_of
from selfattn.data.readers.pairs import PairFiles
from selfattn.processes import give_back_memory, paused_collector


@given(st.text(st.characters(max_codepoint=127)) | st.text())
def test_loose_texts_are_the_letters_and_digits(text):
    assert loose(text) == (re.sub(r"[\W_]+", "", text.casefold()) or text)


ENDINGS = ["one", "one\n", "one\r\n\r\ntwo", "\n\n", "\ufeffone\ntwo\n", "one\x0bb\u2028c\rd\n", "é한\n" * 3 + "€"]


@pytest.mark.parametrize("text", ENDINGS)
@pytest.mark.parametrize("encoding", [None, "utf-16", "utf-16-le", "utf-32-be", "cp949", "cp037", "utf-8-sig"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_counted_without_decoding_them(text, encoding, packed, tmp_path, monkeypatch):
    monkeypatch.setattr("selfattn.data.readers.lines._COUNTED", 3)
    monkeypatch.setattr("selfattn.data.readers.lines._HEAD_BYTES", 8)
    path = tmp_path / ("a.txt.gz" if packed else "a.txt")
    content = text.encode(encoding or "utf-8", "replace")
    path.write_bytes(gzip.compress(content) if packed else content)
    used = checked_encoding(encoding)
    assert LearnedFile.learn(path, used).count == len(list(lines_of(path, used)))


def test_repeated_texts_are_left_out_whatever_their_tags(tmp_path):
    path = tmp_path / "a.tsv"
    rows = [f"source {number}\ttarget {number}\t{tag}\n" for tag in ("", "a", "b") for number in range(40)]
    path.write_text("source\ttarget\tkind\n" + "".join(rows))
    sources = {"train": PairFiles((path,), tag="kind")}
    corpus = read_corpus(sources, ("en", "fr"), cleaning=CleaningOptions(), held_out=2)
    assert sum(map(len, corpus.parts.values())) == 40
    assert {pair.tag for part in corpus.parts.values() for pair in part} == {""}


def test_parts_are_identified_by_all_their_texts(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"source {number}\ttarget {number} é\n" for number in range(2_500)), encoding="utf-8")
    corpus = read_corpus({"train": PairFiles((path,))}, ("en", "fr"), cleaning=CleaningOptions(), held_out=10)
    for name, part in corpus.parts.items():
        texts = "".join(f"{pair.source}\n{pair.target}\n" for pair in part)
        expected = {"pairs": len(part), "sha256": hashlib.sha256(texts.encode()).hexdigest()}
        assert corpus.settings["parts"][name] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries give memory back by themselves")
def test_free_memory_is_given_back():
    def held():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    parts = [b"x" * 50_000 for _ in range(4_000)]
    del parts[:-1]  # what lies behind keeps the C library from giving back what lies before
    before = held()
    give_back_memory()
    assert before - held() > 100_000_000


def test_the_collector_is_as_before_behind_a_pause():
    @paused_collector()
    def fail():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert gc.isenabled()
