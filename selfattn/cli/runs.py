"""The commands that work on comparisons, and that make something else of runs; each is a function of the library."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

import shlex
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from selfattn.cli.options import command
from selfattn.errors import UserError, number_of, say, visible
from selfattn.files import beside
from selfattn.registry import PRESETS
from selfattn.settings import command_line
from selfattn.words.messages import SOURCE, Lang


@command
def report(
    comparison: Path,
    /,
    *,
    out: Path,
    lang: Lang = SOURCE,
    figures: Path | None = None,
    tables: Path | None = None,
) -> None:
    """Write the report of a comparison again. Nothing is trained.

    Args:
        comparison: Directory of a comparison.
        out: Directory for the report.
        lang: Language of the report and of the printed summary.
        figures: Directory for every chart as SVG, PNG and PDF.
        tables: Directory for every table as CSV.
    """
    from selfattn.comparison.report import write_comparison
    from selfattn.comparison.verify import is_external, rewrite_external
    from selfattn.report.text import print_summary
    from selfattn.report.write import write_figures, write_tables

    write_again = rewrite_external if is_external(comparison) else write_comparison
    record, files = write_again(comparison, out, lang)
    for folder, write in ((figures, write_figures), (tables, write_tables)):
        if folder is not None:
            written = write(record, folder, lang)
            say(f"{number_of(len(written), 'file')} in {folder}")
            if write is write_figures and not any(path.suffix == ".png" for path in written):
                say("PNG and PDF need CairoSVG: pip install 'selfattn[figures]'")
    print_summary(record, report=files.html, lang=lang)


@command
def verify(report: Path, /, *, items: int | None = None) -> None:
    """Verify a report: decode its runs again, or score its archived outputs again, and compare every figure.

    Of a run of claims, judge the trials again, and hold them against their files, the plan and the ledger.

    Print one line per run and figure. Exit code: 0 if all agree, 1 if something differs.

    Args:
        report: Directory of a comparison, of a report or of claims, or the record, such as results.json.
        items: Decode only this number of test pairs of each run, drawn at random. Default: all.
    """
    from selfattn.claims.run import is_of_claims, verify_claims
    from selfattn.comparison.verify import verify as verify_report

    of_claims = is_of_claims(report)
    if of_claims and items is not None:
        raise UserError(f"--items {items}: {report} is of claims, which have no test pairs; leave the option out")
    differing = values = 0
    for finding in verify_claims(report) if of_claims else verify_report(report, items):
        print(visible(finding.line))
        differing = differing + bool(finding.differences)
        values = values + finding.values
    outcome = f"not equal: {number_of(differing, 'figure')}" if differing else "all agree"
    print(f"{values:,} values compared: {outcome}")
    if differing:
        raise SystemExit(1)


@command
def models() -> Iterable[str]:
    """List the named models with their sources."""
    width = max(map(len, PRESETS))
    return [f"{name:<{width}}  {preset.summary} ({preset.source})" for name, preset in PRESETS.items()]


@command
def demo(*runs: Path, out: Path = Path("demo.html"), lang: Lang = SOURCE, example: tuple[str, ...] = ()) -> None:
    """Write a web page on which models answer typed input side by side.

    The page is one HTML file. The models run in the browser, without network or server.

    Args:
        runs: Run directories.
        out: File to write. An older demo page is replaced, any other file is not.
        lang: Language of the page.
        example: Example input. May be repeated. Default: test inputs of the first run that a comparison tested.
    """
    from selfattn.comparison.tested import RunOnDisk, is_tested
    from selfattn.demo.page import EXAMPLES, write_demo
    from selfattn.runs.load import load

    examples = [(text, "") for text in example]
    if not examples:
        answers = chain.from_iterable(RunOnDisk(run).outputs.answers for run in runs if is_tested(run))
        examples = [(answer.pair.source, answer.pair.target) for answer in islice(answers, EXAMPLES)]
    write_demo([load(run) for run in runs], out, lang, examples)
    say(f"{out}: open it in a browser")


@command
def export(
    run: Path,
    /,
    *,
    to: Literal["onnx", "ctranslate2"],
    out: Path | None = None,
    quantize: Literal["int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16"] | None = None,
) -> None:
    """Export a run to ONNX or CTranslate2. `predict` and the library load the result like a run.

    --to onnx exports every model as two graphs, the encoder and one decoder step (pip install 'selfattn[onnx]').
    --to ctranslate2 exports Transformers with sinusoidal or learned positions (pip install 'selfattn[ctranslate2]').

    Args:
        run: Run directory.
        to: Format to export to.
        out: New directory. Default: RUN-FORMAT, such as runs/a-onnx.
        quantize: Number type of the stored weights, for ctranslate2 only. Default: unchanged.
    """
    from selfattn.runs.load import load

    path = load(run).export(to, out or beside(run, to), quantize=quantize)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    say(f"{path}: {size / 1e6:.1f} MB; try: {command_line(f'predict {shlex.quote(str(path))}', {})}")


@command
def average(run: Path, /, *, out: Path | None = None, last: int | None = None) -> None:
    """Average the weights that a run keeps of its last validations (train --keep) into a new run.

    Args:
        run: Run directory.
        out: Directory for the new run. Default: RUN-average.
        last: Average only this number of validations, the latest. Default: all that the run keeps.
    """
    from selfattn.runs.load import average_kept

    path = out or beside(run, "average")
    steps = average_kept(run, path, last=last)
    names = ", ".join(f"{step:,}" for step in steps)
    averaged = f"the mean of {len(steps)} validations, at steps {names}"
    if len(steps) == 1:
        averaged = f"the weights of one validation, at step {names}"
    say(f"{path}: {averaged}; try: {command_line(f'evaluate {shlex.quote(str(path))}', {})}")


@command
def push(
    run: Path, name: str, /, *, private: bool = False, test: Annotated[bool, Parameter(negative="--no-test")] = True
) -> None:
    """Publish a run on the Hugging Face Hub, with a model card. Others load it as hf://USER/NAME.

    Checkpoints, local paths and the machine's name are not uploaded. HF_ENDPOINT selects another Hub; HF_TOKEN or
    `hf auth login` identifies you.

    Args:
        run: Run directory.
        name: Repository, as USER/NAME. Created if it does not exist.
        private: Make a new repository private.
        test: Test the run first, for the scores in the model card.
    """
    from selfattn.runs.load import load

    say(f"hf://{name}: {load(run).push(name, private=private, test=test)}")
