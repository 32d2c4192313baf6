"""Runs that share a vocabulary write together: each token by the mean of their probabilities."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_runs import Cli, Train
from torch import Tensor

from selfattn.data.pairs import Pair
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.models.build import Ensemble, EnsembleConfig, build
from selfattn.models.families import PRESETS, EncoderDecoderConfig, TransformerConfig
from selfattn.runs.load import load
from selfattn.runs.run import Run

TEXTS = ["november 13, 2008", "", "1 May 1999"]


def test_the_probabilities_are_the_mean(close: Callable[[Tensor, Tensor], None]) -> None:
    models = [
        build(PRESETS[name].config, vocab_size=7, pad_id=0, seed=seed)
        for seed, name in enumerate(("transformer", "rnn-attention", "decoder-only"))
    ]
    source, target_in = torch.tensor([[4, 5, 2], [6, 2, 0]]), torch.tensor([[1, 4, 5], [1, 6, 4]])
    each = [model(source, target_in, source_mask=source > 0).softmax(dim=-1) for model in models]
    together = Ensemble(models)
    logits = together(source, target_in, source_mask=source > 0)
    close(logits.exp(), torch.stack(each).mean(dim=0))
    state = together.start(together.encode(source, source > 0))
    for place in range(3):
        stepped, state = together.step(target_in[:, place], state)
        close(stepped, logits[:, place])
    turned = state.reorder(torch.tensor([1, 0]))
    close(together.step(target_in[:, 0].flip(0), turned)[0], together.step(target_in[:, 0], state)[0].flip(0))


def test_a_run_with_itself_is_the_run(runs: dict[str, Run]) -> None:
    run = runs["transformer"]
    twice = load(run.path, run.path)
    for options in (DecodingOptions(), DecodingOptions(beam=3, n_best=2), DecodingOptions(sample=True)):
        expected, found = run.decode(TEXTS, options), twice.decode(TEXTS, options)
        assert [[one.text for one in own] for own in found] == [[one.text for one in own] for own in expected]
    pairs = [Pair("1 May 1999", "1999-05-01")]
    assert twice.score(pairs)[0].log_probability == pytest.approx(run.score(pairs)[0].log_probability, abs=1e-4)


def test_families_write_together_on_the_command_line(runs: dict[str, Run], cli: Cli) -> None:
    paths = [runs[name].path for name in ("transformer", "rnn-attention", "rnn-plain")]
    both = load(*paths)
    assert both.config.preset == "transformer + rnn-attention + rnn-plain"
    done = cli("predict", *paths, "--beam", "2", stdin="\n".join(TEXTS) + "\n")
    assert done.code == 0, done.err
    assert done.out.splitlines() == both.predict(TEXTS, DecodingOptions(beam=2))
    assert cli("predict").code == 2


def test_what_does_not_go_together_is_refused(runs: dict[str, Run], train: Train, tmp_path: Path) -> None:
    other = train("transformer", tmp_path / "other", locales=("ko",))
    with pytest.raises(UserError, match="has another vocabulary than"):
        load(runs["transformer"].path, other.path)
    both = load(runs["transformer"].path, runs["rnn-plain"].path)
    with pytest.raises(UserError, match="have no attention in common"):
        both.attention("1 May 1999")
    with pytest.raises(UserError, match="export one of its runs"):
        both.export("onnx", tmp_path / "out")


def test_limits_are_those_of_all() -> None:
    learned = TransformerConfig(position="learned", max_length=9)
    first = EncoderDecoderConfig(encoder=learned, decoder=replace(learned, max_length=7))
    second = EncoderDecoderConfig(encoder=TransformerConfig(), decoder=replace(learned, max_length=5))
    limits = EnsembleConfig((first, second, PRESETS["decoder-only"].config)).limits()
    assert (limits.source, limits.target, limits.together) == (9, 5, None)
