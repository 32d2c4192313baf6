"""Runs published on a Hub and fetched from there; what is of this machine stays here."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from selfattn.errors import UserError
from selfattn.runs.evaluate import evaluate_run
from selfattn.runs.load import load

# Of huggingface_hub's own way to upload without Xet.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
TEXTS = ["november 13, 2008", "1 May 1999"]
NAME = "someone/a-run"


def test_a_run_goes_out_and_comes_back(runs, hub, cli):
    run = runs["rnn-plain"]
    done = cli("push", run.path, NAME, "--no-test").success()
    assert f"hf://{NAME}: {hub.url}/{NAME}/commit/" in done.err
    found = load(f"hf://{NAME}")
    assert found.predict(TEXTS) == run.predict(TEXTS)
    assert found.config.model == run.config.model
    asked = cli("predict", f"hf://{NAME}@main", stdin="\n".join(TEXTS) + "\n")
    assert (asked.code, asked.out.splitlines()) == (0, run.predict(TEXTS))


def test_a_revision_stays_what_it_was(runs, hub):
    runs["rnn-plain"].push(NAME, test=False)
    first = hub.branches[NAME]["main"]
    runs["rnn-attention"].push(NAME, test=False)
    assert load(f"hf://{NAME}").config.preset == "rnn-attention"
    assert load(f"hf://{NAME}@{first}").config.preset == "rnn-plain"
    for unknown in (f"hf://{NAME}@nowhere", "hf://no/where"):
        with pytest.raises(UserError, match=f"{unknown}: the Hub answered with status 404; check the name"):
            load(unknown)


def test_the_card_is_made_from_the_record(runs, hub, monkeypatch):
    monkeypatch.setattr("selfattn.tasks.dates.Dates.test_items", lambda self, quick: 200)
    run = runs["rnn-attention"]
    run.push(NAME)
    text = hub.files(NAME)["README.md"].decode()
    card = ModelCard(text)
    results = {result.metric_type: result for result in card.data.eval_results}
    exact = results["exact_match"]
    assert exact.metric_args["command"] == f"selfattn evaluate hf://{NAME}"
    low, high = exact.metric_args["interval"]
    assert low <= exact.metric_value <= high
    assert (exact.dataset_type, exact.metric_args["level"]) == ("dates", 0.95)
    for part in ("## Data", "## Results", "## Limits", f'selfattn.load("hf://{NAME}")', "Luong et al. 2015"):
        assert part in text, part
    record = json.loads((run.path / "run.json").read_text("utf-8"))
    assert f"{record['parameters']:,} parameters" in text
    shown = evaluate_run(run)
    assert f"| exact match | {shown['metrics']['exact_match']:.4f} |" in text


def test_who_may_not_publish_is_told(runs, hub, cli, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    done = cli("push", runs["rnn-plain"].path, NAME, "--no-test")
    assert done.code == 2
    assert "hf auth login" in done.err
    assert "Traceback" not in done.err


def test_without_a_hub_the_cache_serves(runs, hub, monkeypatch):
    run = runs["rnn-plain"]
    run.push(NAME, test=False)
    load(f"hf://{NAME}")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody answers
    assert load(f"hf://{NAME}").predict(TEXTS) == run.predict(TEXTS)
    with pytest.raises(UserError, match=r"hf://other/run: http://127.* cannot be reached, and the run is not in the"):
        load("hf://other/run")
    with pytest.raises(UserError, match="cannot be reached; nothing was published"):
        run.push(NAME, test=False)


@pytest.mark.parametrize(("fault", "message"), [(503, "the Hub answered with status 503"), ("cut", "cannot be loaded")])
def test_a_bad_answer_of_the_hub_is_one_line(runs, hub, cli, monkeypatch, fault, message):
    runs["rnn-plain"].push(NAME, test=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
    hub.fault = fault
    done = cli("predict", f"hf://{NAME}", stdin="a\n")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert re.search(f"^error: hf://{NAME}: {message}", done.err), done.err
