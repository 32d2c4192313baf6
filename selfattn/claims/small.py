"""Small tasks and trainings: sequences drawn by a rule, straight as tensors, and models trained on them without files.

Token 0 is padding, 1 begins a target, 2 ends it; symbols count from 3. Axis letters: b batch, s source, t target.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.claims.claim import Setup
from selfattn.data.batches import Batch
from selfattn.decoding.greedy import greedy
from selfattn.decoding.options import Hypothesis
from selfattn.layers import initialise
from selfattn.layers.transformer import StackOutput, run_stack
from selfattn.models.build import build
from selfattn.models.config import ModelConfig, override
from selfattn.models.families import TransformerConfig, get_preset
from selfattn.models.protocol import EncoderMemory, Seq2Seq
from selfattn.streams import generator
from selfattn.training.config import TrainingConfig
from selfattn.training.loss import batch_loss
from selfattn.training.step import Stepper, make_optimizer, take_steps
from selfattn.training.weights import Replica

BOS = 1
EOS = 2
FIRST = 3


def vocabulary(symbols: int) -> int:
    """Return the ``vocab_size`` of this many symbols beside padding, begin and end."""
    return FIRST + symbols


def batch_of(source: Tensor, target: Tensor) -> Batch:
    """Make a batch of sources of one length and targets of one length; every target gets its end.

    Args:
        source: int64 ``[b s]``.
        target: int64 ``[b t]``, without begin and end.

    Example:
        >>> batch = batch_of(torch.tensor([[3, 4]]), torch.tensor([[4, 3]]))
        >>> batch.target_in.tolist(), batch.target_out.tolist()
        ([[1, 4, 3]], [[4, 3, 2]])
    """
    rows = len(target)
    target_in = torch.cat([target.new_full((rows, 1), BOS), target], dim=1)
    target_out = torch.cat([target, target.new_full((rows, 1), EOS)], dim=1)
    source_mask = torch.ones_like(source, dtype=torch.bool)
    target_mask = torch.ones_like(target_out, dtype=torch.bool)
    return Batch(source, source_mask, target_in, target_out, target_mask, list(range(rows)))


def random_symbols(rows: int, length: int, *, symbols: int, generator: torch.Generator) -> Tensor:
    """Draw symbols ``[b s]``, each as probable as any other."""
    return torch.randint(FIRST, FIRST + symbols, (rows, length), generator=generator)


def copies(rows: int, length: int, generator: torch.Generator, *, symbols: int) -> Batch:
    """Make sources whose target is the source."""
    source = random_symbols(rows, length, symbols=symbols, generator=generator)
    return batch_of(source, source)


def reversals(rows: int, length: int, generator: torch.Generator, *, symbols: int) -> Batch:
    """Make sources whose target is the source from its end to its beginning."""
    source = random_symbols(rows, length, symbols=symbols, generator=generator)
    return batch_of(source, source.flip(1))


def lookups(rows: int, pairs: int, generator: torch.Generator, *, names: int, values: int) -> Batch:
    """Make sources of names, each followed by its value, whose target is the values in the order of the names.

    Where to look depends on what stands there, not on the place. Values are the first symbols, names the ones behind.
    """
    order = torch.rand(rows, names, generator=generator).argsort(dim=1)[:, :pairs]
    drawn = random_symbols(rows, pairs, symbols=values, generator=generator)
    source = torch.stack([order + FIRST + values, drawn], dim=2).flatten(1)
    return batch_of(source, drawn.gather(1, order.argsort(dim=1)))


def stream(make: Callable[[torch.Generator], Batch], *, seed: int, name: str = "data") -> Iterator[Batch]:
    """Return batches without end, the same for the same seed and name, whatever the model.

    Args:
        make: one batch of a generator, from which it also may draw a length.
        seed: of the trial.
        name: of the stream; ``"validation"`` and ``"test"`` for what is never trained on.
    """
    draws = generator(seed, f"claims/{name}")
    while True:
        yield make(draws)


def held_out(make: Callable[[torch.Generator], Batch], *, seed: int, name: str = "test") -> Batch:
    """Return one batch that is never trained on: the first of the stream of this name."""
    return next(stream(make, seed=seed, name=name))


def validation_and_test(make: Callable[[torch.Generator], Batch], *, seed: int) -> tuple[Batch, Batch]:
    """Return what learning rates are chosen by, and what is reported; neither is trained on."""
    return held_out(make, seed=seed, name="validation"), held_out(make, seed=seed)


def greedy_hits(model: Seq2Seq, batch: Batch) -> Tensor:
    """Decode greedily as far as the targets go, and say which tokens stand in their places: bool ``[b t]``."""
    length = batch.target_out.shape[1]
    written = greedy(model, batch.source, batch.source_mask, bos_id=BOS, eos_id=EOS, max_length=length)
    return written_hits(written, batch)


def exact_share(model: Seq2Seq, batch: Batch) -> float:
    """Return the share of targets that greedy decoding writes exactly, 0 to 1."""
    hits = greedy_hits(model, batch) | ~batch.target_mask
    return float(hits.all(dim=1).double().mean())


@torch.inference_mode()
def loss_of(model: Seq2Seq, batch: Batch) -> float:
    """Return the loss of a batch in nats a token: what learning rates are chosen by, on validation data."""
    return float(batch_loss(model.eval(), batch))


def forced_accuracy(model: Seq2Seq, batch: Batch) -> float:
    """Return the share of target tokens that are the most probable one when the right ones before are given."""
    return float(forced_hits(model, batch)[batch.target_mask].double().mean())


@torch.inference_mode()
def forced_hits(model: Seq2Seq, batch: Batch, given: Tensor | None = None) -> Tensor:
    """Say which target tokens are the most probable one, given those before: bool ``[b t]``.

    Args:
        model: whose they are.
        batch: what is asked for.
        given: what the model reads ``[b t]``; default the right tokens.
    """
    read = batch.target_in if given is None else given
    logits = model.eval()(batch.source, read, source_mask=batch.source_mask)
    hits: Tensor = logits.argmax(dim=-1) == batch.target_out
    return hits


def written_hits(written: Sequence[Hypothesis], batch: Batch) -> Tensor:
    """Say which target tokens, the end among them, stand in their places in what was decoded: bool ``[b t]``.

    Example:
        >>> batch = batch_of(torch.tensor([[3, 4]]), torch.tensor([[4, 3]]))
        >>> written_hits([Hypothesis([4, 5], 0.0, 0.0, True)], batch).tolist()
        [[True, False, True]]
    """
    hits = torch.zeros_like(batch.target_mask)
    for row, (hypothesis, targets) in enumerate(zip(written, batch.target_out.tolist(), strict=True)):
        ids = [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids
        hits[row, : len(ids)] = torch.tensor([a == b for a, b in zip(ids, targets, strict=False)], dtype=torch.bool)
    return hits


class Classifier(Seq2Seq):
    """A model that classifies its source at once, without a decoder; all of the source is real.

    Attributes:
        output: maps the features to logits.
    """

    output: nn.Linear

    @abstractmethod
    def features(self, source: Tensor) -> Tensor:
        """Return what is classified, ``[b t d]``."""

    def classify(self, source: Tensor) -> Tensor:
        """Return logits ``[b t v]``."""
        logits: Tensor = self.output(self.features(source))
        return logits

    def encode(self, source: Tensor, source_mask: Tensor) -> EncoderMemory:
        """Return the logits as memory; there are no steps of decoding."""
        return EncoderMemory(self.classify(source), source_mask)

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Return logits ``[b t v]``; the target is not read."""
        return self.classify(source)


class Labeller(Classifier):
    """A Transformer stack that writes one token at each position of its source, without a decoder.

    Args:
        config: of the stack.
        seed: of the first weights.
        symbols: how many it reads and writes.
        causal: whether a position sees only those before it and itself; default all.
    """

    def __init__(self, config: TransformerConfig, seed: int, *, symbols: int, causal: bool = False) -> None:
        super().__init__()
        tokens = nn.Embedding(vocabulary(symbols), config.dim, padding_idx=0)
        embed, blocks, norm = config.make_stack(tokens, causal=causal)
        self.embed = embed
        self.layers = nn.ModuleList(blocks)
        self.norm = norm
        self.causal = causal
        self.output = nn.Linear(config.dim, vocabulary(symbols))
        initialise(self, generator(seed, "init"))

    def features(self, source: Tensor) -> Tensor:
        """Return the vectors of the stack ``[b s d]``."""
        return self.read(source).x

    def read(self, source: Tensor, *, mask: Tensor | None = None, need_weights: bool = False) -> StackOutput:
        """Run the stack: its vectors ``[b s d]`` and, where asked for, the weights ``[b h i j]`` of each layer.

        Args:
            source: ``[b s]``.
            mask: which keys may be seen, broadcastable to ``[b h i j]``; default all.
            need_weights: whether to return the weights.
        """
        x = self.embed(source)
        return run_stack(self.layers, self.norm, x, mask=mask, causal=self.causal, need_weights=need_weights)


def labels(source: Tensor, wanted: Tensor, where: Tensor | None = None) -> Batch:
    """Make a batch of sources ``[b s]`` with labels ``[b t]``, for a classifier: one for each position, or fewer.

    Args:
        source: what is read.
        wanted: the labels.
        where: the labels that count, bool ``[b t]``; default all.
    """
    if where is None:
        where = torch.ones_like(wanted, dtype=torch.bool)
    is_real = torch.ones_like(source, dtype=torch.bool)
    return Batch(source, is_real, wanted, wanted, where, list(range(len(source))))


def resized(preset: str, changes: Mapping[str, Any] | None = None, **of_both: Any) -> ModelConfig:
    """Return the configuration of a preset with other settings.

    Args:
        preset: whose encoder and decoder have settings of the same names.
        changes: settings by dotted paths; default none.
        of_both: settings of the encoder and of the decoder, such as their width.

    Raises:
        UserError: there is no such preset or setting, or a value is out of its range.

    Example:
        >>> config = resized("luong-dot", {"encoder.num_layers": 2, "decoder.num_layers": 2}, hidden_dim=16)
        >>> config.encoder.hidden_dim, config.decoder.hidden_dim, config.encoder.num_layers
        (16, 16, 2)
    """
    settings = {}
    for name, value in of_both.items():
        settings[f"encoder.{name}"] = value
        settings[f"decoder.{name}"] = value
    return override(get_preset(preset).config, settings | dict(changes or {}))


def graded(setup: Setup, model: Seq2Seq, make: Callable[[torch.Generator], Batch]) -> dict[str, float]:
    """Return the loss on validation data (``valid``) and the share of right test tokens (``right``)."""
    validation, test = validation_and_test(make, seed=setup.seed)
    return {"valid": loss_of(model, validation), "right": forced_accuracy(model, test)}


def trained(setup: Setup, config: ModelConfig, make: Callable[[torch.Generator], Batch], *, symbols: int) -> Seq2Seq:
    """Build a model and train it on batches made by rule; the same seed gives every model the same batches.

    Args:
        setup: of the trial.
        config: of the model.
        make: one batch of a generator.
        symbols: how many the model knows.

    Raises:
        UserError: the loss is no longer a finite number.
    """
    model = build(config, vocab_size=vocabulary(symbols), seed=setup.seed)
    train(setup, model, stream(make, seed=setup.seed))
    return model


def train(setup: Setup, model: Seq2Seq, batches: Iterator[Batch], **settings: Any) -> float:
    """Train a model in place; after it the model is in evaluation mode.

    AdamW, a cosine schedule after a tenth of warm-up, the gradient clipped at norm 1. The global random state is left
    as it was.

    Args:
        setup: of the trial: seed, learning rate, and the setting ``steps``.
        model: of :func:`selfattn.build`.
        batches: one a step; at least as many as steps.
        settings: of :class:`selfattn.training.config.TrainingConfig`.

    Returns:
        The mean loss of the last tenth of the steps, in nats a token.

    Raises:
        UserError: the loss is no longer a finite number.

    Example:
        >>> from selfattn.claims.claim import Arm
        >>> model = build("transformer", vocab_size=13, seed=0)
        >>> batches = stream(lambda draws: copies(4, 5, draws, symbols=10), seed=0)
        >>> train(Setup(Arm("copy", {"steps": 2}), 0, 1e-3), model, batches) > 0
        True
    """
    assert setup.rate is not None
    steps = setup["steps"]
    config = TrainingConfig(
        **{"seed": setup.seed, "max_steps": steps, "lr": setup.rate, "schedule": "cosine", "weight_decay": 0.01}
        | settings
    )
    stepper = Stepper(Replica(model), make_optimizer(model, config), config, generator(setup.seed, "forcing/0"))
    groups = ([batch] for batch in islice(batches, steps))
    model.train()
    with torch.random.fork_rng(devices=[]):
        stepper.begin_epoch(0)
        losses = [taken.loss for taken in take_steps(stepper, groups, total_steps=steps)]
    model.eval()
    return fmean(losses[-max(1, steps // 10) :])
