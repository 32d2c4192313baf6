"""The commands of the claims suite: list, run, new, page."""

# No `from __future__ import annotations`: the types of a command's arguments have to be known by value.

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from selfattn.comparison.options import Backend, check_cluster
from selfattn.errors import UserError, number_of, say
from selfattn.files import write_text, writing
from selfattn.registry import CLAIMS, is_name
from selfattn.words.messages import SOURCE, Lang


def list_claims(*, lang: Lang = SOURCE) -> Iterable[str]:
    """Test what textbooks say about attention. Each claim is a controlled experiment with a verdict.

    Without a command, list the claims: number, name, seconds of a quick and of a full run on two cores, sentence.
    A dash stands where a quick run cannot decide.

    Args:
        lang: Language of the sentences.
    """
    width = max(map(len, CLAIMS))
    for number, (name, claim) in enumerate(CLAIMS.items(), 1):
        quick = f"{claim.seconds[0]:.0f}" if claim.seconds[0] else "–"
        sentence = claim().say("sentence").say(lang)
        yield f"{number:>2}  {name:<{width}}  {quick:>4} {claim.seconds[1]:>4.0f} s  {sentence}"


def run(
    *names: str,
    all_: Annotated[bool, Parameter("--all")] = False,
    quick: bool = False,
    out: Path = Path("claims"),
    jobs: int | None = None,
    lang: Lang = SOURCE,
    resume: bool = False,
    first_seed: int = 1000,
    backend: Backend = "local",
    address: str | None = None,
) -> None:
    """Run claims and write their page.

    Args:
        names: Names or numbers of claims, as `selfattn claims` lists them.
        all_: Run every claim.
        quick: Run small versions for a class: four seeds, learning rates not tuned, two minutes on two cores.
        out: Directory for the page, its record and all measurements. Must be new.
        jobs: Trials to run in parallel. Default: one per core.
        lang: Language of the page and of the printed table.
        resume: Continue the run in --out. Finished trials are not repeated.
        first_seed: First seed. Use other seeds to replicate the verdicts; `claims page` joins the records.
        backend: Where trials run: local processes, or workers of a Dask or Ray cluster.
        address: Address of the cluster, such as tcp://10.0.0.1:8786 (Dask) or 10.0.0.1:6379 (Ray).
    """
    from selfattn.claims.claim import page_words
    from selfattn.claims.page import print_table, write_pages
    from selfattn.claims.run import choose_claims, run_claims
    from selfattn.experiments.plan import PLAN
    from selfattn.experiments.queue import Workers

    if jobs is not None and jobs < 1:
        raise UserError(f"`jobs` {jobs}: expected a whole number of at least 1")
    check_cluster(backend, address)
    claims = choose_claims(names, all_, quick=quick)
    workers = Workers(out, jobs, backend, address, lang=lang)
    try:
        record = run_claims(claims, workers, first_seed=first_seed, resumed=resume)
    except KeyboardInterrupt:
        if (out / PLAN).is_file():
            say(f"stopped; what is done is kept in {out}: the same command with --resume goes on")
        raise
    html = write_pages(record, out, lang)
    print_table(record, lang=lang)
    print(page_words("report_at", path=str(html)).say(lang))
    if failed := [result.name for result in record.claims if result.judgement is None]:
        count = f"{len(failed)} of {number_of(len(record.claims), 'claim')}"
        raise UserError(f"no verdict: {count}: {', '.join(failed)}; see above")


def page(*records: Path, out: Path, lang: Lang = SOURCE) -> None:
    """Write the page again from records. Nothing is measured.

    Args:
        records: `claims.json` files or directories. The first gives the verdicts; others replicate them or add claims.
        out: Directory for the page.
        lang: Language of the page.
    """
    from selfattn.claims.page import write_pages
    from selfattn.claims.run import join_records, read_record

    if not records:
        raise UserError("claims page: name a record, such as claims/claims.json")
    say(f"{write_pages(join_records([read_record(path) for path in records]), out, lang)}: written")


def new(name: str, /) -> None:
    """Write the skeleton of a new claim to NAME.py, ready to run with --plugin NAME.py.

    Args:
        name: Name of the claim, of letters, digits, - and _.
    """
    path = Path(f"{name}.py")
    if not is_name(name) or " " in name:
        raise UserError(f"{name!r}: expected at most 100 letters, digits, - and _")
    if name in CLAIMS or path.exists():
        raise UserError(f"{name!r}: this claim or {path} exists already; choose another name")
    text = resources.files("selfattn.claims").joinpath("skeleton.txt").read_text(encoding="utf-8")
    with writing(path):
        write_text(path, text.replace("NAME", name))
    say(f"{path}: written; try: selfattn --plugin {path} claims run {name} --out {name}")
