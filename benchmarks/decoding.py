"""Decoding of the same weights by us, transformers and CTranslate2; an RNN beside JoeyNMT's; cost against length.

The weights are random, and no model ends a target by itself, so that all write as many tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks import training
from benchmarks.measure import Bench, Row, peers
from selfattn.convert.marian import Marian, MarianIds, to_marian
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy
from selfattn.models.build import build
from selfattn.models.families import PRESETS

VOCABULARY, LENGTH = training.VOCABULARY, training.LENGTH
PAD, EOS = VOCABULARY - 1, 0
Decode = Callable[[list[list[int]], int], list[list[int]]]


def make(device: str) -> Marian:
    config = training.tiny(dropout=0.0)
    model = build(config, vocab_size=VOCABULARY, pad_id=PAD, seed=0).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.copy_(torch.randn(weight.shape, generator=draw) * (0.3 if "tokens" in name else 0.09))
        model.decoder.output.weight[PAD] = 0.0
        model.decoder.output.bias.copy_(torch.randn(VOCABULARY, generator=draw))
        model.decoder.output.bias[[EOS, PAD]] = -1e4
    ids = MarianIds(vocab_size=VOCABULARY, source_vocab_size=VOCABULARY, start_id=PAD, eos_id=EOS, pad_id=PAD)
    return Marian(model.to(device), config, ids)


def ours(model: Any, start: int = PAD, end: int = EOS, length: int = LENGTH) -> Decode:
    def decode(sources: list[list[int]], beam: int) -> list[list[int]]:
        source = torch.tensor(sources, device=model.device)
        ends: dict[str, Any] = {"bos_id": start, "eos_id": end, "max_length": length}
        mask = torch.ones_like(source, dtype=torch.bool)
        if beam == 1:
            return [found.ids for found in greedy(model, source, mask, **ends)]
        return [found[0].ids for found in beam_search(model, source, mask, beam_size=beam, **ends)]

    return decode


def theirs(marian: Marian, device: str) -> Any:
    import transformers

    state, config = to_marian(marian)
    model = transformers.MarianMTModel(transformers.MarianConfig(**config | {"forced_eos_token_id": None})).eval()
    model.load_state_dict(state)
    return model.to(device)


def transformers_way(marian: Marian, device: str) -> Decode:
    model = theirs(marian, device)

    def generate(sources: list[list[int]], beam: int) -> list[list[int]]:
        source = torch.tensor(sources, device=device)
        lengths = {"max_new_tokens": LENGTH, "min_new_tokens": LENGTH, "length_penalty": 0.0, "do_sample": False}
        found = model.generate(source, attention_mask=torch.ones_like(source), num_beams=beam, **lengths)
        return found[:, 1:].tolist()  # type: ignore[no-any-return]  # transformers types it loosely

    return generate


def ctranslate2_way(marian: Marian, device: str) -> Decode:
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    names = [*map(str, range(VOCABULARY - 1)), "<pad>"]
    known = {name: place for place, name in enumerate(names)}
    tokenizer = SimpleNamespace(eos_token=names[EOS], unk_token=names[1], get_vocab=lambda: known)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        spec = MarianMTLoader()(theirs(marian, "cpu"), tokenizer)
        spec.validate()
        spec.optimize()
        spec.save(folder)
        threads = torch.get_num_threads()
        engine = ctranslate2.Translator(folder, device=device, compute_type="float32", intra_threads=threads)

    def translate(sources: list[list[int]], beam: int) -> list[list[int]]:
        words = [[names[token] for token in source] for source in sources]
        lengths = {"max_decoding_length": LENGTH, "min_decoding_length": LENGTH, "length_penalty": 0.0}
        return [
            [int(name) for name in one.hypotheses[0]]
            for one in engine.translate_batch(words, beam_size=beam, **lengths)
        ]

    return translate


def joeynmt_way() -> Decode:
    """An RNN with attention of JoeyNMT, as wide as our ``luong-bidirectional``."""
    from joeynmt.search import beam_search as joey_beam
    from joeynmt.search import greedy as joey_greedy

    config: Any = PRESETS["luong-bidirectional"].config
    width, hidden = config.encoder.embed_dim, config.encoder.hidden_dim
    side = {"type": "recurrent", "rnn_type": "lstm", "hidden_size": hidden, "embeddings": {"embedding_dim": width}}
    decoder = (
        side
        | {"hidden_size": config.decoder.hidden_dim}
        | {"attention": "luong", "input_feeding": config.decoder.input_feeding, "init_hidden": "bridge"}
    )
    encoder = side | {"bidirectional": True, "num_layers": config.encoder.num_layers}
    model = training.joeynmt_model({"encoder": encoder, "decoder": decoder | {"num_layers": config.decoder.num_layers}})
    model = model.eval()

    def decode(sources: list[list[int]], beam: int) -> list[list[int]]:
        source = torch.tensor(sources)
        mask = torch.ones_like(source, dtype=torch.bool)[:, None]
        with torch.no_grad():
            read = {"src": source, "src_mask": mask, "src_length": torch.full((len(source),), source.shape[1])}
            states, last, _, _ = model(return_type="encode", **read)
            kept = {"min_output_length": LENGTH, "max_output_length": LENGTH, "src_mask": mask, "model": model}
            given = kept | {"encoder_output": states, "encoder_hidden": last}
            found = joey_greedy(**given) if beam == 1 else joey_beam(**given, beam_size=beam, alpha=0.0)
        return found[0].tolist()  # type: ignore[no-any-return]  # has no types

    return decode


def rnn() -> Any:
    """Our ``luong-bidirectional`` with a vocabulary as large, which never ends a target."""
    model = build(PRESETS["luong-bidirectional"].config, vocab_size=VOCABULARY, pad_id=0, seed=0).eval()
    with torch.no_grad():
        model.decoder.output.weight[2] = 0.0
        model.decoder.output.bias[2] = -1e4
    return model


def late(model: Any, first: int, steps: int = 32) -> Callable[[], object]:
    """Decode some tokens of a text from a place on."""
    source = torch.full((1, LENGTH), 5, device=model.device)
    token = torch.full((1,), 5, device=model.device)
    with torch.inference_mode():
        state = model.start(model.encode(source, torch.ones_like(source, dtype=torch.bool)))
        for _ in range(first):
            _, state = model.step(token, state)

    def decode() -> None:
        now = state
        with torch.inference_mode():
            for _ in range(steps):
                _, now = model.step(token, now)

    return decode


def rows(bench: Bench) -> Iterator[Row]:
    marian = make(bench.device)
    makers = {"transformers": transformers_way, "CTranslate2": ctranslate2_way}
    made = peers({name: partial(maker, marian, bench.device) for name, maker in makers.items()})
    draw = torch.Generator().manual_seed(1)
    for batch in (64, 1):
        sources = torch.randint(2, PAD, (batch, LENGTH), generator=draw).tolist()
        for beam in (1, 5):
            ways: dict[str, Any] = {"selfattn": ours(marian.model)} | made
            done = {name: partial(way, sources, beam) for name, way in ways.items()}
            title = f"decoding of {batch} sentence{'s' * (batch > 1)}, {LENGTH} tokens, beam {beam}"
            row = bench.row(title, done, goal=1.0 if batch > 1 else 1 / 1.5)
            same = {name: done[name]() == done["selfattn"]() for name in row.taken}
            row.title += "" if all(same.values()) else f" (other outputs: {', '.join(n for n in same if not same[n])})"
            yield row
    if bench.device == "cpu":
        ways = {"selfattn": ours(rnn(), 1, 2)} | peers({"JoeyNMT": joeynmt_way})
        for beam in (1, 5):
            sources = torch.randint(4, VOCABULARY, (64, LENGTH), generator=draw).tolist()
            done = {name: partial(way, sources, beam) for name, way in ways.items()}
            yield bench.row(f"decoding of 64 sentences by an RNN with attention, beam {beam}", done, goal=3.0)
    ways = {f"tokens {first + 1} to {first + 32}": late(marian.model, first) for first in (480, 0)}
    yield bench.row("a decoded token late and early in a text, 32 of them", ways, goal=0.8)
