"""The settings of the translation commands as frozen dataclasses. Imports no torch."""

# No `from __future__ import annotations`: what a dataclass inherits has to be known by value, not by name.

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from selfattn.cli.compare_options import CompareOptions, Match
from selfattn.cli.given_options import chosen_columns
from selfattn.cli.settings import AS_THE_RECIPE, MaybeWhole, Names, RunOptions, Training, Whole
from selfattn.errors import UserError

TokenizerKind = Literal["characters", "unigram", "bpe"]

_DATA = Group("Data (where none is given: cldr, which needs no download)", sort_key=6)
_CLEANING = Group("Cleaning and splitting (of files and the Hub)", sort_key=7)
_SUBWORDS = Group("Tokens", sort_key=7)
_Files = Annotated[tuple[Path, ...], Parameter(group=_DATA, consume_multiple=True, negative="")]
_Text = Annotated[str, Parameter(group=_DATA)]
_MaybeText = Annotated[str | None, Parameter(group=_DATA)]
_Columns = Annotated[Names, Parameter(group=_DATA)]
_Flag = Annotated[bool, Parameter(group=_DATA, negative="")]
_HeldOut = Annotated[MaybeWhole, Parameter(group=_CLEANING)]
_SplitSeed = Annotated[Whole, Parameter(group=_CLEANING)]
_Limit = Annotated[float | None, Parameter(group=_CLEANING)]
_Keep = Annotated[bool, Parameter(group=_CLEANING, negative="")]
_Kind = Annotated[TokenizerKind | None, Parameter(group=_SUBWORDS)]
_Size = Annotated[MaybeWhole, Parameter(group=_SUBWORDS)]
_Share = Annotated[float, Parameter(group=_SUBWORDS)]
_Separate = Annotated[bool, Parameter(group=_SUBWORDS, negative="")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TranslationData:
    """Where pairs come from, and what tokens they are cut into.

    Attributes:
        source: language of the sources; of cldr any locale that Babel knows.
        target: language of the targets, likewise.
        train: two parallel files, or one file of pairs (TSV, CSV or JSON lines), plain or .gz.
        valid: likewise, to choose the best weights by; where none is given, a part of the training file that shares no
            sentence with the rest.
        test: likewise, to test on; where none is given, another such part.
        hub: a dataset on the Hugging Face Hub, or a directory of one, instead of files.
        hub_config: its configuration.
        columns: names of the source's and the target's column, or their numbers from 1, separated by a comma.
        streaming: read the training data as they are needed; memory does not grow with them.
        held_out: pairs of each part that is not given; where not given, a twentieth of all, at most 2,000. Pairs with a
            source or a target in common, case and punctuation ignored, stay together.
        split_seed: of these parts, which are the same for every --seed.
        max_characters: longest text of a training pair; where not given 1,000; 0 for no limit.
        max_ratio: how many times longer or shorter than usual a training pair's target may be for its source; where not
            given 3; 0 for no limit.
        keep_overlap: keep training pairs whose source or target stands in validation or test files; they are counted
            in any case.
        keep_duplicates: keep training pairs that come again.
        plain_spaces: write every kind and run of spaces, such as those in front of French marks, as one plain space.
        tokenizer: characters, or subwords (unigram or BPE); characters for cldr, else BPE.
        vocab_size: of subwords; 8,000 where not given.
        separate: one vocabulary for each language instead of a joint one.
        sampling: share of other segmentations than the best while training (BPE-dropout, or the sharpness of unigram
            sampling); 0 is none.
    """

    source: _Text = "en"
    target: _Text = "ko"
    train: _Files = ()
    valid: _Files = ()
    test: _Files = ()
    hub: _MaybeText = None
    hub_config: _MaybeText = None
    columns: _Columns = ()
    streaming: _Flag = False
    held_out: _HeldOut = None
    split_seed: _SplitSeed = 0
    max_characters: _HeldOut = None
    max_ratio: _Limit = None
    keep_overlap: _Keep = False
    keep_duplicates: _Keep = False
    plain_spaces: _Keep = False
    tokenizer: _Kind = None
    vocab_size: _Size = None
    separate: _Separate = False
    sampling: _Share = 0.0

    @property
    def is_cldr(self) -> bool:
        """Whether the embedded phrases are meant."""
        return not self.train and self.hub is None

    def check_data(self) -> None:
        """Find out whether the settings go together, before any work is done.

        Raises:
            UserError: they do not.
        """
        if self.train and self.hub is not None:
            raise UserError("--train takes files, --hub a dataset; give one of them")
        for flag, files in (("--train", self.train), ("--valid", self.valid), ("--test", self.test)):
            if len(files) > 2:
                raise UserError(f"{flag}: expected two parallel files or one file of pairs, got {len(files)}")
        if not self.train and (self.valid or self.test):
            raise UserError("--valid and --test go with --train: give the training files as well")
        if self.is_cldr and (self.columns or self.streaming):
            raise UserError("--columns and --streaming are for files and the Hub: give --train or --hub as well")
        if len(self.train) == 2 and self.columns:
            raise UserError("--columns is for one file of pairs, two parallel files have none; leave it out")
        if self.hub is None and self.hub_config is not None:
            raise UserError("--hub-config names a configuration of a dataset: give --hub as well, or leave it out")
        chosen_columns(self.columns)
        self._check_cleaning()
        if self.vocab_size is not None and self.vocab_size < 1:
            raise UserError(f"--vocab-size: expected a whole number of at least 1, got {self.vocab_size}")
        if not 0 <= self.sampling < 1:
            raise UserError(f"--sampling: expected a share in [0, 1), got {self.sampling}")
        kind = self.tokenizer or ("characters" if self.is_cldr else "bpe")
        if kind == "characters" and (self.vocab_size is not None or self.separate or self.sampling):
            raise UserError("--vocab-size, --separate and --sampling are for subwords: add --tokenizer bpe")

    def _check_cleaning(self) -> None:
        asked = {name: getattr(self, name) for name in _OF_A_CORPUS}
        usual = {name: getattr(TranslationData, name) for name in _OF_A_CORPUS}
        if self.is_cldr and asked != usual:
            flag = next("--" + name.replace("_", "-") for name in asked if asked[name] != usual[name])
            raise UserError(f"{flag} is for files and the Hub: give --train or --hub as well, or leave it out")
        for flag, number, least in (("--held-out", self.held_out, 1), ("--max-characters", self.max_characters, 0)):
            if number is not None and number < least:
                raise UserError(f"{flag}: expected a whole number of at least {least}, got {number}")
        if self.max_ratio is not None and self.max_ratio != 0 and not 1 <= self.max_ratio < math.inf:
            raise UserError(f"--max-ratio: expected a number of at least 1, or 0 for no limit; got {self.max_ratio:g}")
        if self.streaming and self.keep_duplicates:
            raise UserError("--keep-duplicates: a stream keeps them anyway; leave it out")


_OF_A_CORPUS = ("held_out", "split_seed", "max_characters", "max_ratio", "keep_overlap", "keep_duplicates",
                "plain_spaces")  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainTranslation(TranslationData, RunOptions):
    """Settings of ``selfattn train translation``.

    Attributes:
        model: which model; `selfattn models` lists them.
        out: where the run is kept; must not hold one already.
        seed: of every random stream of the run.
        quick: a small training that ends within seconds, to try things out.
        set: a setting of the model as name=value, such as encoder.dim=128; may be given several times.
        training: how it is trained.
    """

    model: str = "transformer"
    out: Path
    seed: Whole = 0
    quick: bool = False
    set: tuple[str, ...] = ()
    training: Training = AS_THE_RECIPE


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CompareTranslation(TranslationData, CompareOptions):
    """Settings of ``selfattn compare translation``.

    Attributes:
        models: which models, separated by commas; `all` for every one that `selfattn models` lists. Where none is
            named, rnn-attention and transformer, and on a corpus luong-bidirectional and transformer.
        beam: width of the beam that tests are decoded with; where not given 1, which is greedy, and on a corpus 5.
        length_penalty: alpha of the beam's length penalty; where not given 0, and on a corpus 1 unless the beam is 1.
        gold: hold attention against hand-made links between words, as `selfattn align --gold` does.
        sentences: the words of the pairs that --gold links.
        base: what --gold counts words from; where not given, found out from the links.
        floor: what every run has to reach on the test, for others did on the same data: metric=value, with bleu, chrf,
            exact_match or bleu_lowercased_tokenised; of one that does not, the report says "not comparable". Needs
            --floor-source.
        floor_source: who reached what, on what; it stands in the report.
    """

    models: Names = ()
    out: Path = Path("compare/translation")
    match: Match = "parameters"
    beam: MaybeWhole = None
    length_penalty: float | None = None
    gold: Path | None = None
    sentences: Path | None = None
    base: Literal[0, 1] | None = None
    floor: str | None = None
    floor_source: str | None = None


COMPARE_TRANSLATION = CompareTranslation()
