"""A training step: ours beside other libraries' and beside bare PyTorch; forward, backward, clipping and AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.measure import Bench, Row, peers
from selfattn.data.batches import Batch, collate
from selfattn.data.pairs import Example
from selfattn.models.build import build
from selfattn.models.families import PRESETS, EncoderDecoderConfig, TransformerConfig
from selfattn.training.config import TrainingConfig
from selfattn.training.step import Stepper, make_optimizer, take_steps
from selfattn.training.weights import Replica

Step = Callable[[], object]

VOCABULARY, LENGTH, ROWS = 8000, 16, 128
WIDTH, INSIDE, HEADS, LAYERS, DROPOUT, SMOOTHING = 128, 256, 4, 4, 0.1, 0.1
CHARACTERS, DATES = 60, (64, 29, 11)  # tokens; rows, characters of a source and of a target


def tiny(dropout: float = DROPOUT) -> EncoderDecoderConfig:
    """A small translation model: 4 + 4 layers of width 128, 256 inside, one embedding for everything."""
    stack = TransformerConfig(
        dim=WIDTH,
        num_heads=HEADS,
        num_layers=LAYERS,
        ffn_dim=INSIDE,
        norm_first=False,
        dropout=dropout,
        sinusoid_layout="halves",
        max_length=512,
    )
    return EncoderDecoderConfig(encoder=stack, decoder=stack, share_embeddings=True, tie_output=True)


def drawn(rows: int, source: int, target: int, vocabulary: int) -> Batch:
    """A batch of random tokens without padding."""
    draw = torch.Generator().manual_seed(0)

    def text(length: int) -> list[int]:
        return [*torch.randint(4, vocabulary, (length - 1,), generator=draw).tolist(), 2]

    return collate([Example(text(source), text(target)) for _ in range(rows)], 0, 1, range(rows))


def ours(config: Any, batch: Batch, device: str, *, precision: str = "float32", smoothing: float = 0.0) -> Step:
    named: Any = precision  # one of those that the settings know
    settings = TrainingConfig(batch_size=len(batch.indices), precision=named, label_smoothing=smoothing)
    model = build(config, vocab_size=_size(batch), pad_id=0, seed=0).to(device).train()
    stepper = Stepper(Replica(model), make_optimizer(model, settings), settings, torch.Generator())
    steps = take_steps(stepper, repeat([batch]), total_steps=100_000, first=1000)
    return lambda: next(steps)


def dates_step(name: str = "transformer") -> Step:
    """A step of one of the dates' models on the CPU."""
    return ours(PRESETS[name].config, drawn(*DATES, CHARACTERS), "cpu")


def _size(batch: Batch) -> int:
    return VOCABULARY if int(batch.source.max()) >= CHARACTERS else CHARACTERS


def stepping(model: nn.Module, loss: Callable[[], Tensor], device: str, low: bool = False) -> Step:
    """A step of any model, with the same optimizer and clipping as ours."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=low):
            value = loss()
        value.backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def _cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1).float(), batch.target_out.flatten(), label_smoothing=SMOOTHING)


class Bare(nn.Module):
    """PyTorch's own Transformer with an embedding and sinusoids, as its tutorial has it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.body = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, INSIDE, DROPOUT, batch_first=True)
        self.output = nn.Linear(WIDTH, VOCABULARY)
        self.output.weight = self.embed.weight
        self.register_buffer("places", torch.randn(1, LENGTH, WIDTH))
        self.register_buffer("future", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = (self.embed(ids) * math.sqrt(WIDTH) + self.places for ids in (source, target))
        read = self.body(x, y, tgt_mask=self.future, tgt_is_causal=True)
        logits: Tensor = self.output(read)
        return logits


def torch_transformer(batch: Batch, device: str, low: bool) -> Step:
    model = Bare().to(device).train()
    return stepping(model, lambda: _cross_entropy(model(batch.source, batch.target_in), batch), device, low)


def marian(batch: Batch, device: str, low: bool) -> Step:
    import transformers

    sizes: dict[str, int] = {}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": LAYERS, f"{side}_attention_heads": HEADS, f"{side}_ffn_dim": INSIDE}
    special = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None}
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, dropout=DROPOUT, max_position_embeddings=512, **sizes, **special
    )
    model = transformers.MarianMTModel(config).to(device).train()

    def loss() -> Tensor:
        read = model(input_ids=batch.source, decoder_input_ids=batch.target_in, use_cache=False)
        return _cross_entropy(read.logits, batch)

    return stepping(model, loss, device, low)


def x_transformers(batch: Batch, device: str, low: bool) -> Step:
    from x_transformers import XTransformer

    def side(name: str) -> dict[str, Any]:
        sizes = {"num_tokens": VOCABULARY, "depth": LAYERS, "heads": HEADS, "max_seq_len": 64}
        inner = {"attn_dim_head": WIDTH // HEADS, "attn_flash": True, "ff_mult": INSIDE // WIDTH, "ff_dropout": DROPOUT}
        return {f"{name}_{key}": value for key, value in (sizes | inner).items()}

    model = XTransformer(dim=WIDTH, tie_token_emb=True, **side("enc"), **side("dec")).to(device).train()

    def loss() -> Tensor:
        states = model.encoder(batch.source, return_embeddings=True)
        return _cross_entropy(model.decoder.net(batch.target_in, context=states), batch)

    return stepping(model, loss, device, low)


def joeynmt_model(sizes: dict[str, Any], vocabulary: int = VOCABULARY) -> Any:
    """A model of JoeyNMT and its vocabulary; ids 0 to 3 are special: unknown, padding, begin, end."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
    )  # fmt: skip
    words = Vocabulary([str(number) for number in range(vocabulary - 4)], special)
    return build_model(sizes, words, words)


def joeynmt(batch: Batch, device: str, low: bool) -> Step:
    side = {
        "type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH, "ff_size": INSIDE,
        "dropout": DROPOUT, "embeddings": {"embedding_dim": WIDTH, "scale": True},
    }  # fmt: skip
    parts = {"tied_embeddings": True, "tied_softmax": True, "encoder": dict(side), "decoder": dict(side)}
    model = joeynmt_model(parts | {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"})
    model = model.to(device).train()
    model.loss_function = ("crossentropy", SMOOTHING)
    target = batch.target_out.clamp(min=4)
    read = {
        "src": batch.source.clamp(min=4), "src_mask": batch.source_mask[:, None], "src_length": None, "trg": target,
        "trg_input": target.roll(1, 1), "trg_mask": batch.target_mask[:, None],
    }  # fmt: skip
    return stepping(model, lambda: model(return_type="loss", **read)[0] / target.numel(), device, low)


class SmallBare(nn.Module):
    """The dates' Transformer in bare PyTorch, with one projection for queries, keys and values."""

    def __init__(self, dim: int, heads: int, inside: int) -> None:
        super().__init__()
        self.heads = heads
        self.embeds = nn.ModuleList(nn.Embedding(CHARACTERS, dim) for _ in range(2))
        self.joined = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(2))
        self.asked, self.told = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.out = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))
        self.first = nn.ModuleList(nn.Linear(dim, inside) for _ in range(2))
        self.second = nn.ModuleList(nn.Linear(inside, dim) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(7))
        self.output = nn.Linear(dim, CHARACTERS)
        self.register_buffer("places", torch.randn(64, dim))

    def _attend(self, parts: tuple[Tensor, ...], causal: bool = False) -> Tensor:
        query, key, value = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in parts)
        read = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return read.transpose(1, 2).flatten(2)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = x = torch.empty(())
        for side, ids in enumerate((source, target)):
            norms = list(self.norms)[4 * side :]
            x = self.embeds[side](ids) * self.places.shape[1] ** 0.5 + self.places[: ids.shape[1]]
            parts = self.joined[side](norms[0](x)).chunk(3, -1)
            x = x + self.out[side](self._attend(parts, causal=side == 1))
            if side:
                keys, values = self.told(memory).chunk(2, -1)
                x = x + self.out[2](self._attend((self.asked(self.norms[3](x)), keys, values)))
            x = x + self.second[side](self.first[side](norms[1](x)).relu())
            memory = norms[2](x) if side == 0 else memory
        logits: Tensor = self.output(self.norms[6](x))
        return logits


def bare_dates(batch: Batch, device: str) -> Step:
    config = PRESETS["transformer"].config
    assert isinstance(config, EncoderDecoderConfig)
    assert isinstance(config.encoder, TransformerConfig)
    model = SmallBare(config.encoder.dim, config.encoder.num_heads, config.encoder.ffn_dim).to(device).train()

    def loss() -> Tensor:
        return functional.cross_entropy(model(batch.source, batch.target_in).flatten(0, 1), batch.target_out.flatten())

    return stepping(model, loss, device)


def bare_rnn(batch: Batch, device: str) -> Step:
    """PyTorch's LSTMs of the same sizes, with dot attention after them."""
    config: Any = PRESETS["rnn-attention"].config
    width, hidden = config.encoder.embed_dim, config.encoder.hidden_dim
    parts = nn.ModuleDict(
        {
            "source": nn.Embedding(CHARACTERS, width),
            "target": nn.Embedding(CHARACTERS, width),
            "read": nn.LSTM(width, hidden, batch_first=True),
            "write": nn.LSTM(width, hidden, batch_first=True),
            "output": nn.Linear(2 * hidden, CHARACTERS),
        }
    ).to(device)

    def loss() -> Tensor:
        states, last = parts["read"](parts["source"](batch.source))
        asked, _ = parts["write"](parts["target"](batch.target_in), last)
        context = functional.scaled_dot_product_attention(*(x[:, None] for x in (asked, states, states)))[:, 0]
        logits = parts["output"](torch.cat([context, asked], -1))
        return functional.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten())

    return stepping(parts, loss, device)


def yoyodyne(batch: Batch, device: str, low: bool) -> Step:
    """Says why there is no step of it: torchvision, which it requires, brings another torch; it steps in Lightning."""
    import yoyodyne.models

    raise NotImplementedError(f"{yoyodyne.models.__name__} makes steps within Lightning's trainer alone")


def rows(bench: Bench) -> Iterator[Row]:
    device = bench.device
    batch = drawn(ROWS, LENGTH, LENGTH, VOCABULARY)
    there = batch.to(device)
    known = {
        "transformers' MarianMT": marian,
        "nn.Transformer": torch_transformer,
        "x-transformers": x_transformers,
        "JoeyNMT": joeynmt,
        "yoyodyne": yoyodyne,
    }
    for precision, goal in (("float32", 2.0), ("bfloat16", 3.0)):
        torch.manual_seed(0)
        own = ours(tiny(), batch, device, precision=precision, smoothing=SMOOTHING)
        others = peers({name: partial(make, there, device, precision != "float32") for name, make in known.items()})
        yield bench.row(
            f"step of the small translation Transformer, {precision}", {"selfattn": own} | others, goal=goal
        )
    dates = drawn(*DATES, CHARACTERS)
    own = ours(PRESETS["transformer"].config, dates, device)
    others = peers({"bare PyTorch": partial(bare_dates, dates.to(device), device)})
    yield bench.row("step of the dates' Transformer", {"selfattn": own} | others, goal=1.0, warm_up=5)
    own = ours(PRESETS["rnn-attention"].config, dates, device)
    others = peers({"bare PyTorch": partial(bare_rnn, dates.to(device), device)})
    yield bench.row("step of the dates' RNN with attention", {"selfattn": own} | others, goal=1.0, warm_up=5)
