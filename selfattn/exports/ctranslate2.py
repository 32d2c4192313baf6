"""Our Transformer as CTranslate2's: a model for its engine, which needs neither torch nor this package, and back.

Klein et al. 2020, "The OpenNMT Neural Machine Translation Toolkit: 2020 Edition". What the engine would compute in
another way is refused, with the reason. The package `ctranslate2` is imported when a model is converted.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.convert.plain import check_like
from selfattn.data.pairs import Example
from selfattn.decoding.common import Hypothesis
from selfattn.decoding.options import GREEDY, DecodingOptions
from selfattn.errors import UserError
from selfattn.layers import TransformerBlock
from selfattn.layers.init import without_memory
from selfattn.models.build import build
from selfattn.models.config import ModelConfig
from selfattn.models.encoder_decoder.model import EncoderDecoder
from selfattn.models.protocol import Memory, Seq2Seq
from selfattn.models.transformer_config import TransformerConfig
from selfattn.tokenizers.protocol import EOS, SPECIALS, Tokenizer

BATCH_TOKENS = 32_768  # of sources that are decoded together, times hypotheses

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
_HELD = {  # settings of a stack, and the values of them that the engine computes as we do
    "position": ("sinusoidal", "learned"),
    "score": ("scaled_dot",),
    "normalize": ("softmax",),
    "state": ("none",),
    "norm": ("layer",),
    "activation": tuple(_ACTIVATIONS),
    "qk_norm": (False,),
    "num_kv_heads": (None,),
}


def to_ctranslate2(
    model: Seq2Seq,
    config: ModelConfig,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    lengths: tuple[int, int],
    quantize: str | None = None,
) -> None:
    """Write a model for CTranslate2's ``Translator``: ``model.bin``, ``config.json`` and vocabularies of token numbers.

    Tokens are the ids as text, but for the specials, which have their names; a source ends with ``<eos>``.

    Args:
        model: an encoder and a decoder of Transformer blocks.
        config: what it was built from.
        tokenizer: of the model; its specials have the ids 0 to 3.
        folder: where the files go; it is there.
        lengths: most tokens of a source and of a target: for so many the positions are written out, where the model has
            any number.
        quantize: such as ``"int8"``, ``"float16"`` or ``"int8_float32"``; default the weights as they are.

    Raises:
        UserError: the package is missing, or the model has something that the engine does not compute as we do; the
            message says what.
        ValueError: a part of the model was replaced, is pruned or parametrised, or has a hook.
    """
    try:
        from ctranslate2 import specs
    except ImportError:
        raise UserError("ctranslate2: the package is missing; pip install 'selfattn[ctranslate2]'") from None
    encoder, decoder = _stacks(config)
    assert isinstance(model, EncoderDecoder)
    with without_memory():
        fresh = build(config, vocab_size=len(tokenizer), source_vocab_size=len(tokenizer.source))
    check_like(model, fresh, "ctranslate2")

    def options(stack: TransformerConfig) -> dict[str, Any]:
        activation = specs.common_spec.Activation[_ACTIVATIONS[stack.activation]]
        return {"pre_norm": stack.norm_first, "activation": activation}

    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(encoder.num_layers, encoder.num_heads, **options(encoder)),
        specs.TransformerDecoderSpec(decoder.num_layers, decoder.num_heads, **options(decoder)),
    )
    _fill_stack(spec.encoder, spec.encoder.embeddings[0], model.encoder, encoder, lengths[0])
    _fill_stack(spec.decoder, spec.decoder.embeddings, model.decoder, decoder, lengths[1])
    _fill_linear(spec.decoder.projection, [model.decoder.output])
    spec.config.unk_token = SPECIALS[3]
    spec.config.bos_token = SPECIALS[1]
    spec.config.eos_token = SPECIALS[2]
    spec.config.decoder_start_token = SPECIALS[1]
    spec.config.add_source_eos = False
    spec.register_source_vocabulary(token_names(len(tokenizer.source)))
    spec.register_target_vocabulary(token_names(len(tokenizer)))
    spec.validate()
    spec.optimize(quantization=quantize)
    spec.save(str(folder))


def token_names(count: int) -> list[str]:
    """Name the tokens of a vocabulary for the engine.

    Example:
        >>> token_names(6)
        ['<pad>', '<bos>', '<eos>', '<unk>', '4', '5']
    """
    return [*SPECIALS, *map(str, range(len(SPECIALS), count))]


def _stacks(config: ModelConfig) -> tuple[TransformerConfig, TransformerConfig]:
    """Return the settings of both sides, or say what the engine cannot hold."""
    encoder = getattr(config, "encoder", None)
    decoder = getattr(config, "decoder", None)
    if not (isinstance(encoder, TransformerConfig) and isinstance(decoder, TransformerConfig)):
        raise UserError("ctranslate2: holds an encoder and a decoder of Transformer blocks; export this model to onnx")
    for side, (name, values) in itertools.product((encoder, decoder), _HELD.items()):
        if (value := getattr(side, name)) not in values:
            known = " or ".join(map(str, values))
            raise UserError(f"ctranslate2: {name} {value} is computed in another way (only {known}); export to onnx")
    if encoder.dim != decoder.dim:
        raise UserError("ctranslate2: encoder and decoder have different widths; export to onnx")
    return encoder, decoder


def _fill_stack(spec: Any, embeddings: Any, part: Any, stack: TransformerConfig, length: int) -> None:
    """Fill the embeddings, positions, blocks and last norm of one side."""
    embeddings.weight = _array(part.embed.tokens.weight)
    spec.scale_embeddings = stack.scale_embedding
    spec.position_encodings.encodings = _array(part.embed.position(torch.arange(stack.most_tokens or length)))
    for layer, block in zip(spec.layer, part.layers, strict=True):
        _fill_block(layer, block)
    if part.norm is not None:
        _fill_norm(spec.layer_norm, part.norm)


def _fill_block(layer: Any, block: TransformerBlock) -> None:
    """Fill norms and products; those of queries, keys and values of one input are one product there."""
    first = block.self_attn
    cross = block.cross_attn
    feed_forward = block.feed_forward
    _fill_norm(layer.self_attention.layer_norm, block.self_attn_norm)
    _fill_norm(layer.ffn.layer_norm, block.feed_forward_norm)
    products: list[list[Any]] = [[first.q_proj, first.k_proj, first.v_proj], [first.out_proj]]
    products += [[feed_forward.fc1], [feed_forward.fc2]]
    specs = [*layer.self_attention.linear, layer.ffn.linear_0, layer.ffn.linear_1]
    if cross is not None and block.cross_attn_norm is not None:
        _fill_norm(layer.attention.layer_norm, block.cross_attn_norm)
        products += [[cross.q_proj], [cross.k_proj, cross.v_proj], [cross.out_proj]]
        specs += layer.attention.linear
    for spec, linears in zip(specs, products, strict=True):
        _fill_linear(spec, linears)


def _fill_linear(spec: Any, layers: Sequence[Any]) -> None:
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _array(norm.weight)
    spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().clone(memory_format=torch.contiguous_format).numpy()  # quantised in place


def check_options(options: DecodingOptions, *, has_prefixes: bool) -> None:
    """Check that CTranslate2's engine decodes as selfattn does.

    Args:
        options: how to decode.
        has_prefixes: whether outputs begin with texts.

    Raises:
        UserError: the options need samples, several outputs, a length penalty or no repetitions, which the engine
            computes in another way; or a prefix and a beam together.
    """
    for name in ("sample", "length_penalty", "n_best", "no_repeat_ngram"):
        if getattr(options, name) != getattr(GREEDY, name):
            raise UserError(f"`{name}`: CTranslate2's differs; load the run that was exported, or export to onnx")
    if has_prefixes and options.beam > 1:
        raise UserError("`prefix` with a beam: CTranslate2's differs; leave `beam` out, or load the exported run")


def first_limit(sources: Sequence[list[int]], longest: int) -> int:
    """Return the most tokens of an output in the first of two searches.

    An output is cut off where a model repeats itself. It is searched again, so the first time it need not be searched
    to its end: half of the limit, which is the longest right output in a training, and at least twice the longest
    source.

    Example:
        >>> first_limit([[5, 6, 2], [5, 2]], 40), first_limit([[5, 6, 2], [5, 2]], 8), first_limit([[5, 6, 2]], 4)
        (20, 6, 4)
    """
    return min(longest, max(longest // 2, 2 * max(map(len, sources), default=1)))


class Ctranslate2Model(Seq2Seq):
    """A model in a folder that :func:`~selfattn.exports.ctranslate2.to_ctranslate2` has written.

    It runs on the CPU, in the type of its file, with as many threads as torch has when it is loaded.

    Args:
        folder: with ``model.bin``.

    Raises:
        UserError: the package ctranslate2 is missing, or a file is missing or broken.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        try:
            import ctranslate2
        except ImportError:
            raise UserError(f"{folder}: a package is missing; pip install 'selfattn[ctranslate2]'") from None
        try:
            self.engine: Any = ctranslate2.Translator(str(folder), intra_threads=torch.get_num_threads())
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{folder}: CTranslate2 cannot read it ({error}); export the run again") from None
        self._names: dict[int, str] = _Names()
        self._numbers: dict[str, int] = _Numbers()

    def encode(self, source: Tensor, source_mask: Tensor) -> Memory:
        """Refuse.

        Raises:
            ValueError: always.
        """
        raise ValueError("CTranslate2's engine has no steps and no attention; load the run that was exported")

    def forward(self, source: Tensor, target_in: Tensor, *, source_mask: Tensor) -> Tensor:
        """Refuse, as :meth:`encode` does."""
        self.encode(source, source_mask)
        return source

    def hypotheses(
        self,
        sources: Sequence[list[int]],
        options: DecodingOptions,
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> list[list[Hypothesis]]:
        """Decode every source, as :func:`selfattn.decoding.texts.decode_sources` does; the limits are all the same.

        Raises:
            UserError: the options need samples, several outputs, a length penalty or no repetitions, which the engine
                computes in another way; or a prefix and a beam together.
        """
        check_options(options, has_prefixes=any(prefixes))
        names = self._names
        named = [[names[token] for token in source] for source in sources]
        started = [[names[token] for token in prefix] for prefix in prefixes] if any(prefixes) else None
        longest = max(limits, default=1)
        first = first_limit(sources, longest) if options.beam > 1 else longest
        best = [candidates[0] for candidates in self._search(named, started, options.beam, 1, first)]
        # As in selfattn's beam search, a hypothesis that is cut off comes after any finished one: where one hypothesis
        # was, all are searched. One that is finished is the best there is: the others can only become less probable.
        cut_off = [place for place, hypothesis in enumerate(best) if not hypothesis.finished and options.beam > 1]
        if cut_off:
            again = [named[place] for place in cut_off]
            several = self._search(again, None, options.beam, options.beam, longest)
            for place, candidates in zip(cut_off, several, strict=True):
                best[place] = max(candidates, key=lambda each: each.finished)
        hypotheses = [[hypothesis] for hypothesis in best]
        return self._scored_again(sources, hypotheses) if any(prefixes) else hypotheses

    def _search(
        self,
        sources: list[list[str]],
        prefixes: list[list[str]] | None,
        beam: int,
        count: int,
        longest: int,
    ) -> list[list[Hypothesis]]:
        """Let the engine search ``count`` hypotheses for each source; the fewer, the sooner it ends."""
        try:
            results = self.engine.translate_batch(
                sources,
                target_prefix=prefixes,
                beam_size=beam,
                num_hypotheses=count,
                length_penalty=0.0,
                min_decoding_length=0,
                max_decoding_length=longest,
                max_input_length=0,
                max_batch_size=max(1, BATCH_TOKENS // beam),
                batch_type="tokens",
                return_end_token=True,
                return_scores=True,
            )
        except RuntimeError as error:  # such as a missing position
            raise ValueError(str(error)) from None
        hypotheses = []
        for result in results:
            candidates = []
            for tokens, score in zip(result.hypotheses, result.scores, strict=True):
                finished = tokens[-1:] == [SPECIALS[2]]
                ids = [self._numbers[token] for token in (tokens[:-1] if finished else tokens)]
                candidates.append(Hypothesis(ids, score, score, finished))
            hypotheses.append(candidates)
        return hypotheses

    def _scored_again(
        self, sources: Sequence[list[int]], hypotheses: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Return hypotheses with the log-probability of all their tokens: the engine leaves out that of a prefix."""
        examples = []
        for source, (best, *_) in zip(sources, hypotheses, strict=True):
            examples.append(Example(source, [*best.ids, EOS] if best.finished else best.ids))
        scored = []
        for scores, (best, *_) in zip(self.score_tokens(examples), hypotheses, strict=True):
            total = math.fsum(scores)
            scored.append([replace(best, log_probability=total, score=total)])
        return scored

    def score_tokens(self, examples: Sequence[Example]) -> list[list[float]]:
        """Score the tokens of every target, as :func:`selfattn.decoding.scoring.score_tokens` does."""
        try:
            results = self.engine.score_batch(
                [[self._names[token] for token in example.source] for example in examples],
                [[self._names[token] for token in example.target if token != EOS] for example in examples],
                max_batch_size=BATCH_TOKENS,
                batch_type="tokens",
                max_input_length=0,
            )
        except RuntimeError as error:  # such as a missing position
            raise ValueError(str(error)) from None
        # The engine also scores the end of a target that has none.
        return [
            list(result.log_probs[: len(example.target)]) for result, example in zip(results, examples, strict=True)
        ]


class _Names(dict[int, str]):
    """The engine's names of tokens, as they are needed."""

    def __missing__(self, token: int) -> str:
        self[token] = SPECIALS[token] if token < len(SPECIALS) else str(token)
        return self[token]


class _Numbers(dict[str, int]):
    """The tokens of the engine's names, as they are needed."""

    def __missing__(self, name: str) -> int:
        self[name] = SPECIALS.index(name) if name in SPECIALS else int(name)
        return self[name]
