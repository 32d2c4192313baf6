"""Time decoding against transformers' generate and CTranslate2 on the same weights, by turns; ratios in median.

`python benchmarks/decoding.py` prints a table; nothing is kept. It needs the packages transformers and ctranslate2;
OMP_NUM_THREADS says how many threads each of the three may use; with one, processor time counts, which a busy machine
disturbs less than the clock on the wall. The model has 4 + 4 layers of width 128, 256 inside,
and 8,000 tokens; its weights are random, and it never ends a target by itself, so that all write as many tokens.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ctranslate2
import torch
import transformers
from ctranslate2.converters.transformers import MarianMTLoader

from selfattn.convert import Marian, MarianIds, to_marian
from selfattn.decoding.beam import beam_search
from selfattn.decoding.greedy import greedy
from selfattn.models.build import build
from selfattn.models.encoder_decoder.config import EncoderDecoderConfig
from selfattn.models.transformer_config import TransformerConfig

VOCABULARY, LENGTH, TURNS, WARM_UP = 8000, 16, 5, 1
PAD, EOS = VOCABULARY - 1, 0

Outputs = list[list[int]]
Decode = Callable[[list[list[int]], int], Outputs]


def make() -> Marian:
    stack = TransformerConfig(
        dim=128, num_heads=4, num_layers=4, ffn_dim=256, norm_first=False, sinusoid_layout="halves", max_length=512
    )
    config = EncoderDecoderConfig(encoder=stack, decoder=stack, share_embeddings=True, tie_output=True)
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
    return Marian(model, config, ids)


def ours(marian: Marian) -> Decode:
    def decode(sources: list[list[int]], beam: int) -> Outputs:
        source = torch.tensor(sources)
        ends: dict[str, Any] = {"bos_id": PAD, "eos_id": EOS, "max_length": LENGTH}
        mask = torch.ones_like(source, dtype=torch.bool)
        if beam == 1:
            return [found.ids for found in greedy(marian.model, source, mask, **ends)]
        return [found[0].ids for found in beam_search(marian.model, source, mask, beam_size=beam, **ends)]

    return decode


def theirs(marian: Marian) -> tuple[Decode, Decode]:
    """Return transformers' way and CTranslate2's."""
    state, config = to_marian(marian)
    model = transformers.MarianMTModel(transformers.MarianConfig(**config | {"forced_eos_token_id": None})).eval()
    model.load_state_dict(state)
    names = [*map(str, range(VOCABULARY - 1)), "<pad>"]
    tokenizer = SimpleNamespace(
        eos_token=names[EOS], unk_token=names[1], get_vocab=lambda: {name: place for place, name in enumerate(names)}
    )
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        spec = MarianMTLoader()(model, tokenizer)
        spec.validate()
        spec.optimize()
        spec.save(folder)
        engine = ctranslate2.Translator(
            folder, device="cpu", compute_type="float32", intra_threads=torch.get_num_threads()
        )

    def generate(sources: list[list[int]], beam: int) -> Outputs:
        source = torch.tensor(sources)
        lengths = {"max_new_tokens": LENGTH, "min_new_tokens": LENGTH}
        found = model.generate(
            source,
            attention_mask=torch.ones_like(source),
            num_beams=beam,
            do_sample=False,
            length_penalty=0.0,
            **lengths,
        )
        return found[:, 1:].tolist()  # type: ignore[no-any-return]  # transformers types it loosely

    def translate(sources: list[list[int]], beam: int) -> Outputs:
        found = engine.translate_batch(
            [[names[token] for token in source] for source in sources],
            beam_size=beam,
            length_penalty=0.0,
            max_decoding_length=LENGTH,
            min_decoding_length=LENGTH,
        )
        return [[int(name) for name in one.hypotheses[0]] for one in found]

    return generate, translate


def main() -> None:
    marian = make()
    generate, translate = theirs(marian)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    ways = {"selfattn": ours(marian), "transformers": generate, "CTranslate2": translate}
    draw = torch.Generator().manual_seed(1)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, ctranslate2 {ctranslate2.__version__}, "
        f"{torch.get_num_threads()} threads, float32, sources and targets of {LENGTH} tokens, {TURNS} turns"
    )
    print(
        "| batch | beam | "
        + " | ".join(f"{name}, sentences/s" for name in ways)
        + " | times as fast as | same outputs |"
    )
    print("| ---: | ---: |" + " ---: |" * len(ways) + " --- | --- |")
    for batch in (64, 1):
        sources = torch.randint(2, PAD, (batch, LENGTH), generator=draw).tolist()
        for beam in (1, 5):
            repeats, taken = (1 if batch > 1 else 8), []
            for _ in range(WARM_UP + TURNS):
                row = []
                for decode in ways.values():
                    started = clock()
                    for _ in range(repeats):
                        decode(sources, beam)
                    row.append(clock() - started)
                taken.append(row)
            columns = list(zip(*taken[WARM_UP:], strict=True))
            rates = [batch * repeats / statistics.median(column) for column in columns]
            own = columns[0]
            against = [statistics.median(b / a for a, b in zip(own, other, strict=True)) for other in columns[1:]]
            written = [decode(sources, beam) for decode in ways.values()]
            same = [sum(a == b for a, b in zip(written[0], other, strict=True)) for other in written[1:]]
            print(
                f"| {batch} | {beam} | "
                + " | ".join(f"{rate:.0f}" for rate in rates)
                + " | "
                + ", ".join(f"{name} {ratio:.2f}" for name, ratio in zip(list(ways)[1:], against, strict=True))
                + f" | {', '.join(f'{count} of {batch}' for count in same)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
