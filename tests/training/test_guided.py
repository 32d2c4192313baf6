"""Guided alignment: one head learns given links, in the RNN and in the Transformer alike."""

import pytest
import torch
from marian_model import pairs as word_pairs

from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example, Pair
from selfattn.errors import SettingError, UserError
from selfattn.evaluation.attention import AttentionReading, align_words, linked_examples, word_links
from selfattn.evaluation.links import read_gold, spans_by_texts
from selfattn.models.build import build
from selfattn.runs.train import train
from selfattn.tokenizers.listed import CharTokenizer
from selfattn.training.loss import alignment_loss, batch_loss

LINKED = [Example([4, 5, 6, 2], [7, 8, 2], ((0, 0), (1, 0), (2, 1))), Example([5, 2], [9, 10, 4, 2], ((0, 2),))]
BATCH = collate(LINKED, 0, 1, [0, 1])


def test_the_loss_by_hand():
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]]], dtype=torch.float64)
    links = torch.tensor([[[True, True, False], [False, False, True], [False, False, False]]])
    by_hand = -(0.5 * torch.tensor(0.5 * 0.25, dtype=torch.float64).log() + torch.tensor(0.6).double().log()) / 2
    torch.testing.assert_close(alignment_loss(weights, links), by_hand)
    assert alignment_loss(weights, torch.zeros_like(links)).item() == 0.0
    scores = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: alignment_loss(x.softmax(-1), links), scores)


@pytest.mark.parametrize("preset", ["rnn-attention", "transformer", "transformer-rope", "decoder-only"])
def test_it_is_added_to_the_loss_of_the_tokens(preset, close):
    model = build(preset, vocab_size=11, seed=0).double().eval()
    maps = model.attention_maps(BATCH.source, BATCH.target_in, source_mask=BATCH.source_mask).cross
    added = alignment_loss(maps[max(0, len(maps) - 2)][:, 0], BATCH.links)
    guided = batch_loss(model, BATCH, label_smoothing=0.1, guided=0.3)
    close(guided, batch_loss(model, BATCH, label_smoothing=0.1) + 0.3 * added)
    guided.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    without = Batch(*(getattr(BATCH, name) for name in Batch.__slots__ if name != "links"))
    assert torch.equal(batch_loss(model, without, guided=0.3), batch_loss(model, without))


def test_links_are_rows_of_the_batch_padding_aside():
    assert BATCH.links.shape == (2, 4, 4)
    assert BATCH.links.nonzero().tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 0]]
    assert collate([Example([4, 2], [5, 2])], 0, 1, [0]).links is None


def write_links(place, seed, count):
    """Write pairs in which the first target word is linked to the second source word, the others to the first."""
    data, links = place / "pairs.tsv", place / "links.tsv"
    lines = [f"{source}\t{target}" for source, target in word_pairs(seed, count)]
    data.write_text("".join(f"{line}\n" for line in lines))
    numbers = (range(line.count(" ") // 2 + 1) for line in lines)
    linked = (" ".join(f"{int(n == 0)}-{n}" for n in words) for words in numbers)
    links.write_text("".join(f"{line}\t{of_line}\n" for line, of_line in zip(lines, linked, strict=True)))
    return data, links


SETTINGS = {"source": "en", "target": "de", "tokenizer": "words", "max_steps": 45, "batch_size": 32, "lr": 0.02}
SETTINGS |= {"validation_items": 4, "validate_every": 45, "threads": 1}
SIZES = {
    "rnn-attention": ("encoder.hidden_dim=16", "decoder.hidden_dim=16"), "rnn-plain": (),
    "transformer": ("encoder.dim=16", "decoder.dim=16", "encoder.num_layers=1", "decoder.num_layers=2"),
}  # fmt: skip


def trained(model, data, out, **settings):
    return train("translation", model=model, data=data, out=out, set=SIZES[model], **(SETTINGS | settings))


@pytest.mark.parametrize(("model", "layers"), [("rnn-attention", 1), ("transformer", 2)])
def test_a_head_learns_links_that_translation_does_not_give(model, layers, tmp_path):
    data, links = write_links(tmp_path, 3, 300)
    run = trained(model, data, tmp_path / "guided", guided=1.0, links=links)
    gold = read_gold(write_links(tmp_path, 4, 40)[1])
    readings = word_links(run.model, run.tokenizer, gold)
    assert {reading.layer for reading in readings} == set(range(layers))
    found = readings[AttentionReading(0, 0, False)]  # of the last layer but one, or the only one
    right = sum(len(links & set(pair.links.sure)) for links, pair in zip(found, gold, strict=True))
    assert right / sum(len(pair.links.sure) for pair in gold) > 0.9, "by chance one in four"
    assert align_words(run.model, run.tokenizer, gold).best == (0, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"links": True}, "`links`: also needs `guided`"),
        ({"guided": 1.0}, r"`guided`: no training pair has links; selfattn train reads a file of them \(--links\)"),
        ({"guided": -1.0}, "`guided`: expected"),
        (
            {"guided": 1.0, "links": True, "model": "rnn-plain"},
            "`guided`: EncoderDecoder has no attention to its source",
        ),
        ({"guided": 1.0, "links": True, "teacher_forcing_end": 0.5}, "leave `teacher_forcing` at 1"),
        ({"guided": 1.0, "links": True, "tokenizer": "bpe", "sampling": 0.1}, r"needs pairs, and tokens that are the"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings, message, tmp_path):
    data, links = write_links(tmp_path, 3, 60)
    settings = {name: links if name == "links" else value for name, value in settings.items()}
    with pytest.raises(UserError, match=message):
        trained(settings.pop("model", "transformer"), data, tmp_path / "run", **settings)


def test_resuming_with_other_links_is_refused(tmp_path):
    data, links = write_links(tmp_path, 3, 60)
    settings = {"guided": 1.0, "links": links, "max_steps": 2, "validate_every": 1}
    trained("rnn-attention", data, tmp_path / "run", **settings)
    links.write_text("".join(links.read_text().splitlines(keepends=True)[:30]))
    with pytest.raises(UserError):
        trained("rnn-attention", data, tmp_path / "run", **settings, resume=True)


def test_a_language_model_has_no_links(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a b c\n" * 40)
    with pytest.raises(SettingError, match="`guided`: needs pairs"):
        train("lm", data=text, out=tmp_path / "run", guided=1.0, max_steps=2)


@pytest.mark.parametrize("name", ["enfr", "roen"])
def test_published_links_of_words_are_those_of_their_characters(name, shared_data):
    links, sentences = (shared_data(f"alignments/{name}/{name}.{ending}") for ending in ("gold", "src-tgt"))
    gold = read_gold(links, sentences=sentences)[:50]
    texts = [Pair(" ".join(pair.source), " ".join(pair.target)) for pair in gold]
    tokenizer = CharTokenizer(text for pair in texts for text in (pair.source, pair.target))
    for pair, example in zip(gold, linked_examples(texts, tokenizer, spans_by_texts(gold)), strict=True):
        numbers = [
            [n for n, word in enumerate(side) for _ in range(len(word) + 1)] for side in (pair.source, pair.target)
        ]
        of_words = {(numbers[0][source], numbers[1][target]) for source, target in example.links}
        assert of_words == pair.links.possible
