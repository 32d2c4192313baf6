"""A training that diverges says what to do, and goes on with a lower rate."""

from dataclasses import replace
from pathlib import Path

import pytest
import training_parts as parts

from selfattn.errors import UserError
from selfattn.runs.directory import RunDirectory
from selfattn.training.config import TrainingConfig
from selfattn.training.step import check_finite

CONFIG = TrainingConfig(epochs=4, batch_size=4, lr=0.01)


@pytest.mark.parametrize(("precision", "also"), [("float32", False), ("bfloat16", True)])
def test_the_advice_fits_the_precision(precision: str, also: bool) -> None:
    with pytest.raises(UserError, match="the loss became nan at step 3; lower the learning rate") as caught:
        check_finite("loss", float("nan"), 3, 0.5, precision)
    assert str(caught.value).endswith(", or train anew in float32") == also
    assert "--lr, now 0.5), with --resume from the last checkpoint" in caught.value.as_options()


def test_it_goes_on_with_a_lower_rate_and_with_nothing_else_changed(tmp_path: Path) -> None:
    class Diverges(parts.Observer):
        def validated(self, *_: object) -> None:
            raise UserError("training: the loss became nan")

    with pytest.raises(UserError, match="became nan"):
        parts.fit_small(tmp_path / "run", CONFIG, save_every=1, observers=[Diverges()])
    directory = RunDirectory(tmp_path / "run")
    assert directory.record().status == "failed"
    with pytest.raises(UserError, match=r"begun with training.lr = 0.01, now asked for 0.02"):
        parts.fit_small(tmp_path / "run", replace(CONFIG, lr=0.02), resume=True)
    with pytest.raises(UserError, match=r"begun with training.batch_size = 4, now asked for 5"):
        parts.fit_small(tmp_path / "run", replace(CONFIG, lr=0.001, batch_size=5), resume=True)
    assert directory.config().training.lr == 0.01
    parts.fit_small(tmp_path / "run", replace(CONFIG, lr=0.001), resume=True)
    assert (directory.record().status, directory.config().training.lr) == ("finished", 0.001)
    assert [report.epoch for report in directory.metrics()] == [1, 2, 3, 4]
    assert directory.metrics()[-1].lr <= 0.001


def test_weights_that_are_no_numbers_are_never_gone_on_from(tmp_path: Path) -> None:
    """The step is too large for float32; the loss of the next step would tell, behind the checkpoint of this one."""
    config = replace(CONFIG, lr=1e39, warmup=0.0, schedule="constant")
    with pytest.raises(UserError, match=r"the size of \S+ became (inf|nan) at step 1; lower the learning rate"):
        parts.fit_small(tmp_path / "run", config, save_every=1)
    parts.fit_small(tmp_path / "run", replace(config, lr=0.001), resume=True, save_every=1)
    assert RunDirectory(tmp_path / "run").record().status == "finished"
