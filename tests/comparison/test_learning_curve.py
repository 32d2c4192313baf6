"""The learning curve of a comparison has points between validations, which change nothing and survive a resume."""

from selfattn.comparison import trainings
from selfattn.comparison.compare import compare
from selfattn.results.record import read_record
from selfattn.runs.directory import CURVE, METRICS, WEIGHTS, RunDirectory
from selfattn.runs.fit import _Keeper
from selfattn.training.observer import CurveReport


def test_points_between_validations_change_no_bit(finished, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(trainings, "_CURVE_POINTS", 0)
    record, _ = compare("dates", out=tmp_path / "out", **settings)
    for run in record.models[0].run_dirs:
        with_points, without = (RunDirectory(folder / run) for folder in (finished, tmp_path / "out"))
        assert with_points.record().files[WEIGHTS] == without.record().files[WEIGHTS]
        assert [report.measures for report in with_points.metrics()] == [r.measures for r in without.metrics()]
        assert not (without.path / CURVE).exists()
    drawn = read_record(finished / "results.json")
    assert drawn.settings["curve_items"] == 100
    assert "curve_items" not in record.settings
    points = drawn.models[0].curves[0].points
    assert [point.step for point in points] == list(range(1, 9))  # of 8 steps, validations after 4 and 8
    assert all(point.valid is not None for point in points)
    assert [point.step for point in points if point.valid_loss is not None] == [4, 8]


def test_points_behind_the_checkpoint_are_measured_again(finished, copy):
    directory = RunDirectory(copy / read_record(copy / "results.json").models[0].run_dirs[0])
    steps = [point.step for point in directory.curve()]
    assert steps == [1, 2, 3, 4, 5, 6, 7]
    keeper = _Keeper(directory, is_new=False, keep=0)
    keeper.resumed(5, (), None)
    assert [point.step for point in directory.curve()] == [1, 2, 3, 4, 5]
    keeper.measured(CurveReport(1, 6, 60, 1.0, 0.5))
    assert directory.curve()[-1].step == 6
    assert (directory.path / METRICS).is_file()
