"""The commands of the claims suite: list, run, begin a claim of one's own, make the page again."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from importlib import resources
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from selfattn.cli.options import MaybeWhole
from selfattn.cli.runs import Lang
from selfattn.console import say
from selfattn.errors import UserError
from selfattn.files import write_text, writing
from selfattn.registry import CLAIMS, is_name
from selfattn.words.catalogue import SOURCE


def claims_commands(group: App) -> App:
    """Give the group of commands what is in it.

    Args:
        group: called with nothing behind it, it lists the claims.
    """
    group.default(list_claims)
    for command in (run, new, page):
        group.command(command)
    return group


def list_claims(*, lang: Lang = SOURCE) -> None:
    """What the textbook says of attention: each claim a small controlled experiment with a verdict.

    With nothing behind it, lists the claims: number, name, seconds of a quick and of a full run on two processor
    cores, sentence.

    Args:
        lang: the language of the sentences.
    """
    width = max(map(len, CLAIMS))
    for number, (name, claim) in enumerate(CLAIMS.items(), 1):
        quick, full = claim.seconds
        print(f"{number:>2}  {name:<{width}}  {quick:>4.0f} {full:>4.0f} s  {claim().say('sentence').say(lang)}")


def run(
    *names: str,
    all_: Annotated[bool, Parameter("--all")] = False,
    quick: bool = False,
    out: Path = Path("claims"),
    jobs: MaybeWhole = None,
    lang: Lang = SOURCE,
) -> None:
    """Run claims and write their page; what the directory has already is not measured again.

    Args:
        names: of claims, or their numbers.
        all_: every claim there is.
        quick: a look that confirms nothing: two seeds, learning rates not tuned, fewer steps.
        out: directory of the page, its record and all measurements; the same one goes on where it stopped.
        jobs: trials at once; where not given, one on each core.
        lang: language in which the page opens, of its Markdown form and of the table printed here.
    """
    from rich.console import Console

    from selfattn.claims.page import print_table, words, write_pages
    from selfattn.claims.run import chosen, run_claims

    if jobs is not None and jobs < 1:
        raise UserError(f"`jobs` {jobs}: expected a whole number of at least 1")
    picked = chosen(names, all_)
    record = run_claims(picked, out, quick=quick, jobs=jobs, everything=all_)
    files = write_pages(record, out, lang)
    print_table(record, Console(highlight=False), lang)
    print(words("report_at", path=str(files.html)).say(lang))
    if record.not_run:
        raise KeyboardInterrupt(f"{out} keeps what is done; the same command goes on with {', '.join(record.not_run)}")
    if failed := [result.name for result in record.claims if result.judgement is None]:
        raise UserError(f"{len(failed)} of {len(record.claims)} claims have no verdict: {', '.join(failed)}; see above")


def page(record: Path, /, *, out: Path, lang: Lang = SOURCE) -> None:
    """Make the page of a run of claims again from its record; nothing is measured.

    Args:
        record: `claims.json`, or the directory that has it.
        out: directory of the page.
        lang: language in which the page opens, and of its Markdown form.
    """
    from selfattn.claims.page import write_pages
    from selfattn.claims.record import judged, read_record

    say(f"{write_pages(judged(read_record(record)), out, lang).html}: written")


def new(name: str, /) -> None:
    """Write the skeleton of a claim of your own into NAME.py: it runs at once, with --plugin NAME.py.

    Args:
        name: of the claim: letters, digits, - and _.
    """
    path = Path(f"{name}.py")
    if not is_name(name) or " " in name:
        raise UserError(f"{name!r}: a claim's name is made of at most 100 letters, digits, - and _")
    if name in CLAIMS:
        raise UserError(f"{name!r}: there is a claim of this name already; choose another")
    if path.exists():
        raise UserError(f"{path}: is there already; choose another name")
    text = resources.files("selfattn.claims").joinpath("skeleton.txt").read_text(encoding="utf-8")
    with writing(path):
        write_text(path, text.replace("NAME", name))
    say(f"{path}: written; try: selfattn --plugin {path} claims run {name} --out {name}")
