"""A model computed by CTranslate2's engine, which searches by itself and has no steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.decoding.common import Hypothesis
from selfattn.decoding.options import DecodingOptions
from selfattn.errors import UserError
from selfattn.models.protocol import Memory, Seq2Seq
from selfattn.tokenizers.protocol import SPECIALS

BATCH_TOKENS = 32_768  # of sources that are decoded together, times hypotheses


class Ctranslate2Model(Seq2Seq):
    """A model in a folder that :func:`~selfattn.convert.ctranslate2.to_ctranslate2` has written.

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
            raise UserError(
                f"{folder}: the package ctranslate2 is missing; pip install 'selfattn[ctranslate2]'"
            ) from None
        try:
            self.engine: Any = ctranslate2.Translator(str(folder), intra_threads=torch.get_num_threads())
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{folder}: CTranslate2 cannot read it ({error}); export the run again") from None

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
        self, sources: Sequence[list[int]], options: DecodingOptions, limits: Sequence[int]
    ) -> list[list[Hypothesis]]:
        """Decode every source, as :func:`selfattn.decoding.texts.decode_sources` does.

        Raises:
            UserError: the options need samples, several outputs or a length penalty, which the engine computes in
                another way.
        """
        for name in ("sample", "length_penalty"):
            if getattr(options, name):
                raise UserError(f"`{name}`: CTranslate2's differs; load the run that was exported, or export to onnx")
        if options.n_best > 1:
            raise UserError("`n_best`: CTranslate2 may miss the best ones; load the run, or export to onnx")
        hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
        for limit in sorted(set(limits)):
            places = [place for place, most in enumerate(limits) if most == limit]
            try:
                results = self.engine.translate_batch(
                    [[_name(token) for token in sources[place]] for place in places],
                    beam_size=options.beam,
                    length_penalty=0.0,
                    min_decoding_length=0,
                    max_decoding_length=limit,
                    max_input_length=0,
                    max_batch_size=max(1, BATCH_TOKENS // options.beam),
                    batch_type="tokens",
                    return_end_token=True,
                    return_scores=True,
                )
            except RuntimeError as error:  # such as a missing position
                raise ValueError(str(error)) from None
            for place, result in zip(places, results, strict=True):
                tokens, score = result.hypotheses[0], result.scores[0]
                finished = tokens[-1:] == [SPECIALS[2]]
                ids = [_number(token) for token in (tokens[:-1] if finished else tokens)]
                hypotheses[place] = [Hypothesis(ids, score, score, finished)]
        return hypotheses


def _name(token: int) -> str:
    return SPECIALS[token] if token < len(SPECIALS) else str(token)


def _number(token: str) -> int:
    return SPECIALS.index(token) if token in SPECIALS else int(token)
