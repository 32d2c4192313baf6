"""Attention as word alignment against gold: words put together from tokens, files of gold links."""

from pathlib import Path

import pytest
import torch

from selfattn.data.pairs import Example
from selfattn.errors import UserError
from selfattn.evaluation.alignment.attention_scores import token_links
from selfattn.evaluation.alignment.links import GoldPair, Link, Links, read_gold
from selfattn.evaluation.alignment.word_alignment import Way, report_alignment, to_words, word_links
from selfattn.models.build import build
from selfattn.models.presets import PRESETS
from selfattn.models.protocol import AttentionMaps, Seq2Seq
from selfattn.tokenizers.char import CharTokenizer

MODEL = build(PRESETS["transformer"].config, vocab_size=11, pad_id=0, seed=0)


class Words(CharTokenizer):
    """One token a word: words are single letters, and spaces are no tokens."""

    def encode(self, text: str) -> list[int]:
        return super().encode(text.replace(" ", ""))

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(place, place + 1) for place, character in enumerate(text) if character != " "]


class Pieces(CharTokenizer):
    """Characters, as subwords have them: a space is one token with the letter behind it, and one comes at the front."""

    def encode(self, text: str) -> list[int]:
        return [self.unk_id, *super().encode(text.replace(" ", ""))]

    def spans(self, text: str) -> list[tuple[int, int]]:
        places = [place for place, character in enumerate(text) if character != " "]
        return [(0, 0), *((place - (text[place - 1 : place] == " "), place + 1) for place in places)]


class Told(torch.nn.Module):
    """A model that attends as it is told: one layer, one head, weights ``[t s]`` the same for every sentence."""

    device = torch.device("cpu")

    def __init__(self, weights: list[list[float]]) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.tensor(weights))

    def attention_maps(self, source: torch.Tensor, target_in: torch.Tensor, **_: object) -> AttentionMaps:
        return AttentionMaps((), (), (self.weights.expand(len(source), 1, -1, -1),))


def pair(source: str, target: str, links: Links | None = None) -> GoldPair:
    return GoldPair(tuple(source.split()), tuple(target.split()), links or Links())


@pytest.mark.parametrize("name", ["transformer", "decoder-only", "rnn-attention"])
def test_where_words_are_tokens_links_are_those_of_the_tokens(name: str) -> None:
    tokenizer = Words("abcdefg")
    model = build(PRESETS[name].config, vocab_size=len(tokenizer), pad_id=0, seed=1)
    pairs = [pair("a b c d", "e f g"), pair("g", "a a b b"), pair("c a", "d")]
    found = word_links(model, tokenizer, pairs)
    examples = [
        Example([*tokenizer.encode(" ".join(p.source)), 2], [*tokenizer.encode(" ".join(p.target)), 2]) for p in pairs
    ]
    for way, links in found.items():
        expected = token_links(model, examples, pad_id=0, bos_id=1, layer=way.layer, head=way.head, shifted=way.shifted)
        assert [set(some) for some in expected] == links
    heads = 4 if name != "rnn-attention" else 1
    assert {(way.head, way.shifted) for way in found} == {(h, s) for h in (*range(heads), None) for s in (False, True)}


def test_attention_is_summed_over_the_source_and_averaged_over_the_target() -> None:
    """Characters ``ab c`` and ``d ef``, each with ``<eos>``: a space belongs to the word behind it."""
    told: Seq2Seq = Told(  # type: ignore[assignment]  # as much of a model as is asked
        [
            # a,   b,    ' ',  c,   <eos>
            [0.30, 0.30, 0.00, 0.4, 0.0],  # d: its largest weight is on c, its largest sum on ab
            [0.00, 0.00, 0.30, 0.1, 0.6],  # ' ', of the word ef
            [0.35, 0.30, 0.15, 0.1, 0.1],  # e: for ab
            [0.00, 0.05, 0.50, 0.4, 0.1],  # f: for c; the mean of the three is on c
            [1.00, 0.00, 0.00, 0.0, 0.0],  # <eos>
        ]
    )
    found = word_links(told, CharTokenizer("abcdef "), [pair("ab c", "d ef")])
    assert found[Way(0, 0, False)] == found[Way(0, None, False)] == [{(0, 0), (1, 1)}]
    # Shifted, d has the row of the space, and ef those of e, f and <eos>.
    assert found[Way(0, 0, True)] == [{(1, 0), (0, 1)}]


def test_tokens_that_begin_with_a_space_belong_to_the_word_behind_it() -> None:
    told: Seq2Seq = Told(  # type: ignore[assignment]  # as much of a model as is asked
        [
            # '', a,   b,   ' c', <eos>
            [0.3, 0.1, 0.1, 0.4, 0.1],  # '', of the word d
            [0.3, 0.2, 0.1, 0.4, 0.0],  # d
            [0.0, 0.0, 0.1, 0.9, 0.0],  # ' e'
            [0.0, 0.0, 0.3, 0.0, 0.7],  # <eos>
        ]
    )
    found = word_links(told, Pieces("abcde"), [pair("ab c", "d e")])
    assert found[Way(0, 0, False)] == [{(0, 0), (1, 1)}]


def test_a_word_without_a_token_and_attention_to_nothing_give_no_link() -> None:
    weights = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    assert to_words(weights, [0, 2], [1, 2]).tolist() == [[0, 0, 0], [0.5, 0, 0.5], [0, 0, 1]]
    nothing: Seq2Seq = Told([[0.0, 1.0], [0.0, 1.0]])  # type: ignore[assignment]  # as much of a model as is asked
    assert word_links(nothing, Words("ab"), [pair("a", "b")])[Way(0, 0, False)] == [set()]


def test_a_model_without_attention_has_no_ways() -> None:
    model = build(PRESETS["rnn-plain"].config, vocab_size=11, pad_id=0, seed=0)
    assert word_links(model, Words("abcdefg"), [pair("a", "b")]) == {}


# --- the report -------------------------------------------------------------------------------------------------------

LINKS: dict[Way, list[set[Link]]] = {
    Way(0, 0, False): [{(0, 0), (1, 1)}, {(0, 0)}],
    Way(0, 0, True): [{(0, 0), (0, 1)}, {(1, 0)}],
}
GOLD = [
    pair("a b", "c d", Links(frozenset({(0, 0), (0, 1)}))),
    pair("a b", "c", Links(frozenset({(1, 0)}), frozenset({(0, 0)}))),
]


def test_a_report_by_hand() -> None:
    report = report_alignment(LINKS, GOLD)
    assert (report.pairs, report.sure, report.possible) == (2, 3, 4)
    unshifted, shifted = report.counts.values()
    assert (unshifted.links, unshifted.in_sure, unshifted.in_possible) == (3, 1, 2)
    assert unshifted.aer == pytest.approx(1 - 3 / 6)
    assert shifted.aer == 0
    assert report.best == Way(0, 0, True)


# --- files ------------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_two_files_and_one_hold_the_same(tmp_path: Path) -> None:
    sentences = write(tmp_path / "text", "a  b ||| c d  \n")
    links = write(tmp_path / "links", "1-1 2p2\n")
    together = write(tmp_path / "both.tsv", "a b\tc d\t0-0 1p1\n")
    assert read_gold(links, sentences=sentences) == read_gold(together)
    assert read_gold(together)[0].links == Links(frozenset({(0, 0)}), frozenset({(1, 1)}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b c\tc d\t1-1\n", "the links could count from 0 or from 1; say which"),
        ("a\tb\t0-1\n", r"gold.tsv:1: 0-1: outside its sentences of 1 and 1 words"),
        ("a\tb\n", r"gold.tsv:1: expected source, target and links, with tabs between; got 2 columns"),
        ("a\t \t0-0\n", r"gold.tsv:1: a sentence without a word"),
        ("a\tb\t0-0\na\tb\tx\n", r"gold.tsv:2: 'x' is not a link; write i-j \(sure\) or ipj \(possible\), such as 0-2"),
        ("a\tb\t0-0 -1-2\n", ":1: '-1-2' is not a link"),
        ("a\tb\t" + "9" * 5000 + "\n", ":1: '9{40}' is not a link; write"),
        ("a\tb\t٣-0\n", ":1: '٣-0' is not a link"),  # digits of other scripts are no positions
    ],
)
def test_bad_gold_is_said_in_a_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_gold(write(tmp_path / "gold.tsv", text))


def test_what_links_count_from_is_seen_or_said(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.tsv", "a b c\tc d\t1-1\n")
    assert read_gold(path, base=1)[0].links.sure == {(0, 0)}
    assert read_gold(path, base=0)[0].links.sure == {(1, 1)}
    assert read_gold(write(path, "a\tb\t\n"))[0].links == Links()


def test_files_of_two_lengths_and_without_bars_are_refused(tmp_path: Path) -> None:
    sentences, links = write(tmp_path / "text", "a ||| b\n"), write(tmp_path / "links", "0-0\n0-0\n")
    with pytest.raises(UserError, match=r"has 1 lines and .* 2; expected links for each pair"):
        read_gold(links, sentences=sentences)
    write(sentences, "a | b\n")
    with pytest.raises(UserError, match=r"text:1: expected source \|\|\| target"):
        read_gold(write(links, "0-0\n"), sentences=sentences)
