"""The JavaScript engine against torch: the same outputs, and attention weights within 1e-4."""

import base64
import json
import random
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from unicodedata import category

import pytest
import torch
from safetensors.torch import load as load_safetensors
from torch.nn.utils.rnn import pad_sequence
from zoo import VARIANTS, VOCAB, Zoo, rnn, transformer

from selfattn.attention import RelativeBias
from selfattn.data.dates.source import DateSource
from selfattn.data.pairs import clean_text, plain_text, plain_words
from selfattn.decoding.beam import beam_search
from selfattn.demo.page import embedded_weights, page_tokens, read_page
from selfattn.models.build import build
from selfattn.models.config import config_from_dict, config_to_dict
from selfattn.models.families import DecoderOnlyConfig, EncoderDecoderConfig
from selfattn.models.inside import trace_model
from selfattn.tokenizers.listed import CharTokenizer, LetterTokenizer, WordTokenizer
from selfattn.tokenizers.subword import SubwordSettings, SubwordTokenizer

ENGINE = resources.files("selfattn.demo").joinpath("templates", "engine.js").read_text(encoding="utf-8")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "demo" / "dates.html"
HARNESS = Path(__file__).with_name("harness.js").read_text(encoding="utf-8")

LIMIT = 6
KINDS = ("encoder", "decoder", "cross")
# The page says that it cannot run these.
NOT_RUN = ("linear", "delta", "only-rnn", "softmax", "sparsemax", "sigmoid", "entmax")
CONFIGS = {
    name.removeprefix("preset "): config
    for name, config in VARIANTS.items()
    if not any(part in name for part in NOT_RUN)
} | {
    "dot": transformer(score="dot", position="none"),
    "concat, query-key norm": transformer(score="concat", qk_norm=True, num_kv_heads=1),
    "bahdanau concat": rnn({}, {"attention": "bahdanau", "score": "concat"}),
    "two heads, general": rnn({}, {"num_heads": 2, "score": "general", "project": True}),
}


@cache
def model_of(name):
    return Zoo.fresh(CONFIGS[name]).eval()


def case(name, sources, **more):
    given = {"blocked": [], "given": None, "limit": LIMIT} | more
    settings = {"config": config_to_dict(CONFIGS[name]), "weights": embedded_weights(model_of(name))}
    return settings | {"sources": sources} | given


def assert_same(answer, model, source):
    """Torch writes the same, with the same logits and attention weights."""
    ids, mask = torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool)
    target_in = torch.tensor([[1, *answer["ids"]]])[:, :LIMIT]
    with torch.inference_mode():
        maps = model.attention_maps(ids, target_in, source_mask=mask)
        logits = model(ids, target_in, source_mask=mask)[0]
    assert 2 not in answer["ids"]  # nothing follows the end, and each token is the best after those before it
    assert logits.argmax(dim=-1).tolist() == [*answer["ids"], 2][:LIMIT]
    torch.testing.assert_close(torch.tensor(answer["logits"], dtype=torch.float32), logits, rtol=1e-3, atol=1e-4)
    for kind in KINDS:
        wanted = torch.cat(getattr(maps, kind) or [torch.empty(0)])
        width = wanted.shape[-1]  # a decoder's rows grow; torch's end in zeros
        whole = [[[row + [0.0] * (width - len(row)) for row in head] for head in layer] for layer in answer[kind]]
        torch.testing.assert_close(torch.tensor(whole, dtype=torch.float32), wanted, rtol=0, atol=1e-4)


@pytest.fixture
def ask_node():
    """Call a function of the engine or the harness in node: its name, and the argument of each call."""
    if not (node := shutil.which("node")):
        pytest.skip("needs node")

    def ask(function, arguments):
        told = f"JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8')).map(one => {function}(one)))"
        script = f"{ENGINE}\n{HARNESS}\nprocess.stdout.write({told});"
        done = subprocess.run([node, "-e", script], input=json.dumps(arguments), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return ask


def test_every_model_answers_as_torch_does(ask_node):
    source = [*random.Random(32).choices(range(4, VOCAB), k=17), 2]  # one model ends early, all others write on
    answers = ask_node("answer", [case(name, [source]) for name in CONFIGS])
    for name, [answer] in zip(CONFIGS, answers, strict=True):
        try:
            assert_same(answer, model_of(name), source)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def without(model, source, blocked, given):
    """Torch's logits where no query may attend to some places of the source; a recurrent encoder reads them still."""
    ids, every = torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool)
    mask = every.clone()
    mask[0, blocked] = False
    with torch.inference_mode():
        memory = model.encode(ids, mask)
        if memory.final is not None:
            memory = replace(model.encode(ids, every), mask=mask)
        state, rows = model.start(memory), []
        for token in [1, *given[:-1]]:
            logits, state = model.step(torch.tensor([token]), state)
            rows.append(logits[0])
    return torch.stack(rows)


def test_a_blocked_token_is_torchs_mask(ask_node):
    names = [name for name, config in CONFIGS.items() if isinstance(config, EncoderDecoderConfig)]
    source, blocked, given = [7, 8, 9, 10, 11, 2], [1, 4], [5, 6, 7, 2]
    cases = [case(name, [source], blocked=blocked, given=[given]) for name in names]
    for name, [answer] in zip(names, ask_node("answer", cases), strict=True):
        wanted = without(model_of(name), source, blocked, given)
        logits = torch.tensor(answer["logits"], dtype=torch.float32)
        torch.testing.assert_close(logits, wanted, rtol=1e-3, atol=1e-4, msg=name)
        for layer in answer["cross"]:
            assert all(row[place] == 0 for head in layer for row in head for place in blocked)


def test_a_blocked_token_of_a_decoder_only_model_is_attended_to_by_nobody(ask_node):
    names = [name for name, config in CONFIGS.items() if isinstance(config, DecoderOnlyConfig)]
    sources, blocked = [[7, 8, 9, 2], [7, 10, 9, 2]], [1]  # they differ in what is blocked
    cases = [case(name, sources, blocked=blocked) for name in names]
    for one, other in ask_node("answer", cases):
        assert one == other
        heads = [head for layer in one["cross"] + one["encoder"] for head in layer]
        assert all(row[1] == 0 for head in heads for row in head)


def test_a_tokens_way_is_torchs(ask_node):
    """Each vector that the page shows is the intermediate of that name in the library."""
    names = {
        "rnn-attention": {"embedding": "decoder.embed", "hidden": "decoder.stack", "context": "decoder.cross_attn"},
        "bahdanau-gru": {"embedding": "decoder.embed", "hidden": "decoder.stack", "context": "decoder.cross_attn"},
        "transformer": {"embedding": "decoder.embed", "forward": "decoder.layers.0", "read": "decoder.norm"},
        "decoder-only": {"embedding": "embed", "forward": "layers.0", "read": "norm"},
    }
    source, given = [7, 8, 9, 2], [5, 6, 7, 2]
    cases = [case(name, [source], given=[given]) for name in names]
    for (name, parts), [answer] in zip(names.items(), ask_node("ways", cases), strict=True):
        trace = trace_model(model_of(name), torch.tensor(source), torch.tensor([1, *given[:-1]]))
        for part, intermediate in parts.items():
            vectors = [next(one[1] for one in step if one[0] == part and one[2] in (0, None)) for step in answer]
            expected = trace[intermediate]
            torch.testing.assert_close(torch.tensor(vectors), expected, rtol=1e-3, atol=1e-4, msg=f"{name} {part}")


def test_a_beam_finds_what_the_librarys_finds(ask_node):
    draw = random.Random(0)
    sources = [[*draw.choices(range(4, VOCAB), k=draw.randint(1, 9)), 2] for _ in range(8)]
    names = ("transformer", "rnn-attention", "rnn-plain", "decoder-only", "luong-input-feeding")
    searches = [(name, width) for name in names for width in (1, 3)]
    cases = [case(name, sources, width=width) for name, width in searches]
    for (name, width), answers in zip(searches, ask_node("searched", cases), strict=True):
        for source, answer in zip(sources, answers, strict=True):
            ids = torch.tensor([source])
            settings = {"bos_id": 1, "eos_id": 2, "max_length": LIMIT, "beam_size": width}
            [[expected]] = beam_search(model_of(name), ids, ids > 0, **settings)
            assert (answer["ids"], answer["finished"]) == (expected.ids, expected.finished), (name, width)
            assert answer["total"] == pytest.approx(expected.log_probability, abs=1e-3)
            assert max(answer["counts"]) <= 2 * width


def test_after_forced_tokens_the_model_goes_on_by_itself(ask_node):
    model, source, ids = model_of("transformer"), [7, 8, 9, 2], [9, 5]
    [[written]] = ask_node("forced", [case("transformer", [source], ids=ids)])
    assert written[:2] == ids
    source_ids = torch.tensor([source])
    with torch.inference_mode():
        logits = model(source_ids, torch.tensor([[1, *written[:-1]]]), source_mask=source_ids > 0)
    assert logits[0].argmax(dim=-1)[2:].tolist() == written[2:]


@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_committed_page_and_the_library_write_the_same_dates(ask_node, count):
    models, _ = read_page(PAGE.read_text(encoding="utf-8"))
    texts = [pair.source for pair in DateSource(split="test").pairs(count)]
    cases, expected = [], []
    for payload in models:
        tokenizer = CharTokenizer(payload["source"])
        model = build(config_from_dict(payload["config"]), vocab_size=len(tokenizer), pad_id=0, seed=0).eval()
        model.load_state_dict(load_safetensors(base64.b64decode(payload["weights"])))
        ids = [[*tokenizer.encode(text), 2] for text in texts]
        limit = payload["max_length"]
        settings = {"config": payload["config"], "weights": payload["weights"], "limit": limit, "ids": []}
        cases.append(settings | {"sources": ids})
        source = pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
        settings = {"bos_id": 1, "eos_id": 2, "max_length": limit, "beam_size": 1}
        expected.append([each.ids for [each] in beam_search(model, source, source > 0, **settings)])
    written = ask_node("forced", cases)
    assert [[[token for token in row if token != 2] for row in rows] for rows in written] == expected


def test_distances_fall_into_the_same_buckets(ask_node):
    distances = torch.arange(-600, 601)
    one, both = (RelativeBias(1, bidirectional=way).bucket(distances).tolist() for way in (False, True))
    found = ask_node("((one) => [bucket(one, false), bucket(one, true)])", distances.tolist())
    assert found == [list(pair) for pair in zip(one, both, strict=True)]


def test_what_the_page_cannot_run_is_said_in_one_line(ask_node):
    attempt = "((one) => { try { answer(one); } catch (error) { return error.message; } })"
    cases = []
    for setting, value in (("score", "cosine"), ("normalize", "sparsemax"), ("state", "delta")):
        cases.append(case("transformer", []))
        cases[-1]["config"]["decoder"][setting] = value
    assert ask_node(attempt, cases) == ["score cosine", "normalizer sparsemax", "state delta"]


def test_texts_are_cleaned_as_the_library_does(ask_node):
    every = [chr(code) for code in [*range(0x3100), *range(0xFE00, 0x10000)]]
    every = [character for character in every if category(character) != "Cn"]  # node may know a newer Unicode
    draw = random.Random(0)
    texts = [f"{character}a {character}" for character in every]
    texts += ["".join(draw.choices(every, k=12)) for _ in range(2000)]
    assert ask_node("cleanText", [*texts, *HARD]) == [clean_text(text) for text in [*texts, *HARD]]


def test_characters_that_a_vocabulary_lacks_get_their_plain_form_as_in_the_library(ask_node):
    known = CharTokenizer("0123456789 /\u0663\u200d")
    texts = [f"1{chr(code)}/" for code in range(0xA0, 0x20000) if not 0xD800 <= code < 0xE000]
    texts = [text for text in texts if category(text[1]) != "Cn"]
    call = f"((text) => makeTokenizer({json.dumps(known.characters)}).clean(text))"
    assert ask_node(call, texts) == [plain_text(clean_text(text), known.characters) for text in texts]


WRITTEN = {
    "words": (WordTokenizer(["turn left", "t͡ɕʰ 2", "a  b"]), plain_words, [
        "turn  left", "turn\u00a0left 2", " a   b ", "２ t͡ɕʰ x y x", "\u2066left\u2069",
    ]),
    "letters": (LetterTokenizer(["한국어 문장", "が", "é2"]), plain_text, [
        "간문", "국\u00a0２", "か\u3099e\u0301", "ệ",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRITTEN)
def test_words_and_letters_are_read_and_written_as_in_the_library(ask_node, kind):
    tokenizer, plain, texts = WRITTEN[kind]
    call = "(({ data, text }) => { const t = makeTokenizer(data), clean = t.clean(text), ids = t.encode(clean);"
    call += " return [clean, ids, t.decode(ids), t.unknown(clean)]; })"
    texts = [*texts, *HARD]
    answers = ask_node(call, [{"data": page_tokens(tokenizer), "text": text} for text in texts])
    for text, (clean, ids, again, unknown) in zip(texts, answers, strict=True):
        expected = plain(clean_text(text), tokenizer.known)
        assert (clean, ids) == (expected, tokenizer.encode(expected)), text
        assert again == tokenizer.decode(ids)
        assert set(unknown) == set(tokenizer.unknown(expected))


SEGMENT = """(({ data, texts }) => {
  const tokenizer = makeTokenizer(data);
  return texts.map((text) => { const ids = tokenizer.encode(text); return [ids, tokenizer.decode(ids)]; });
})"""
HARD = [
    "", " ", "  two  spaces ", "é", "e\u0301", "한국어 문장입니다.", "▁", "a▁b", "▁a", "<mask>x<mask>", "<mask>2",
    "<0x41>", "😀😀", "\t", "<unk>", "<s>", "\ufeffa", "a\u00a0b", "\u3000",
]  # fmt: skip


def test_subwords_of_hard_texts_are_those_of_the_library(ask_node):
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdé한국", k=draw.randint(1, 7))) for _ in range(60)]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(300)]
    hard = [*texts, *HARD, *("".join(draw.choices("abcdé한국 zß", k=30)) for _ in range(300))]
    kinds = [(kind, byte_fallback) for kind in ("unigram", "bpe") for byte_fallback in (True, False)]
    settings = [SubwordSettings(kind, vocab_size=400, byte_fallback=fallback) for kind, fallback in kinds]
    tokenizers = [SubwordTokenizer.train(texts, each, clip=True) for each in settings]
    answers = ask_node(SEGMENT, [{"data": page_tokens(tokenizer), "texts": hard} for tokenizer in tokenizers])
    for kind, tokenizer, of_kind in zip(kinds, tokenizers, answers, strict=True):
        for text, (ids, again) in zip(hard, of_kind, strict=True):
            wanted = tokenizer.encode(text)
            assert (ids, again) == (wanted, tokenizer.decode(wanted)), (kind, text)
