"""Files are written whole or not at all, and what is no fit.json is said to be none."""

import errno
import json
import os
import stat

import pytest

from ebfit import files, writing
from ebfit.errors import BadInputError
from ebfit.files import Estimate, Fit, PointRecord, TargetRecord, Trend, Trends


def _fit():
    point = PointRecord(
        run="b=1", batch_tokens=1000.0, steps=123.4, tokens=123400.0, steps_se=None, censored=False
    )
    target = TargetRecord(
        loss=2.5,
        law="revised",
        b_min=Estimate(value=None, low=None, high=900.0, status="upper_bound"),
        b_opt=Estimate(value=2000.0, low=1900.0, high=2100.0, status="ok"),
        s_min=100.0,
        e_min=1e6,
        s_opt=500.0,
        params={"c": 0.1},
        rms_log_residual=0.01,
        points=[point],
    )
    trend = Trend(k=1.0, exponent=0.4, d_low=1e5, d_high=1e6)
    return Fit(
        schema="ebfit.fit/1",
        ebfit_version="0",
        settings={"seed": 0},
        inputs=[],
        runs=[],
        targets=[target],
        trends=Trends(b_opt_vs_tokens=trend),
    )


# --- writing ---------------------------------------------------------------------------------------------------


def _fails(*_args, **_more):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    path = tmp_path / "fit.json"
    path.write_text("old")
    monkeypatch.setattr(os, call, _fails)
    with pytest.raises(BadInputError, match=r"fit\.json: cannot be written \(No space left on device\)"):
        writing.write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["fit.json"]


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_full_disk_leaves_nothing_where_there_was_nothing(tmp_path, monkeypatch, call):
    monkeypatch.setattr(os, call, _fails)
    with pytest.raises(BadInputError):
        writing.write_text(tmp_path / "fit.json", "new")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def interrupted(*_args):
        raise KeyboardInterrupt

    path = tmp_path / "fit.json"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writing.write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["fit.json"]


def test_a_link_stays_a_link_and_the_file_behind_it_is_replaced(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    behind = folder / "real.json"
    behind.write_text("old")
    link = tmp_path / "fit.json"
    link.symlink_to(behind)
    writing.write_text(link, "new")
    assert link.is_symlink()
    assert behind.read_text() == "new"
    assert os.listdir(folder) == ["real.json"]


def test_permissions_stay_and_new_files_follow_the_umask(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("old")
    old.chmod(0o640)
    writing.write_text(old, "new")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        writing.write_text(new, "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_places_that_cannot_be_written_are_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for path, says in [
        (tmp_path, "is a folder"),
        (tmp_path / "gone" / "fit.json", "no such folder"),
        (tmp_path / "file" / "fit.json", "no such folder"),
    ]:
        with pytest.raises(BadInputError, match=says):
            writing.check_writable(path)
    writing.check_writable(tmp_path / "fit.json")
    writing.check_writable(tmp_path / "file")
    # root may write anywhere, so ask for what other people would be told
    monkeypatch.setattr(os, "access", lambda *_args, **_more: False)
    with pytest.raises(BadInputError, match="not writable"):
        writing.check_writable(tmp_path / "fit.json")


def test_a_folder_cannot_be_made_where_a_file_stands(tmp_path):
    writing.make_folder(tmp_path / "a" / "b")
    writing.make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "plots"):
        with pytest.raises(BadInputError, match="cannot be made a folder"):
            writing.make_folder(path)


# --- fit.json --------------------------------------------------------------------------------------------------


def test_a_fit_comes_back_as_it_was_saved(tmp_path):
    path = tmp_path / "fit.json"
    _fit().save(path)
    assert Fit.load(path) == _fit()
    Fit.load(path).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_programs_find_the_keys_of_the_contract(tmp_path):
    path = tmp_path / "fit.json"
    _fit().save(path)
    document = json.loads(path.read_text())
    contract = {"schema", "ebfit_version", "settings", "inputs", "runs", "targets", "trends", "comparison"}
    assert contract <= set(document)
    assert document["schema"] == "ebfit.fit/1"
    [target] = document["targets"]
    assert {
        "loss", "law", "b_min", "b_opt", "s_min", "e_min", "s_opt", "params", "rms_log_residual", "warnings"
    } <= set(target)  # fmt: skip
    assert target["b_min"] == {"value": None, "low": None, "high": 900.0, "status": "upper_bound"}
    assert {"run", "batch_tokens", "steps", "tokens", "steps_se", "censored"} <= set(target["points"][0])
    assert document["trends"]["b_min_vs_tokens"] is None


def test_numbers_that_json_does_not_know_are_null(tmp_path):
    fit = _fit()
    fit.targets[0].params["c"] = float("inf")
    fit.targets[0].rms_log_residual = float("nan")
    text = files.to_json(fit)
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["targets"][0]["params"] == {"c": None}


def _changed(change):
    document = json.loads(files.to_json(_fit()))
    change(document)
    return json.dumps(document)


WRONG = {
    "another schema": (_changed(lambda d: d.update(schema="ebfit.plan/1")), "schema: "),
    "a later version": (_changed(lambda d: d.update(schema="ebfit.fit/2")), "schema: "),
    "no targets": (_changed(lambda d: d.pop("targets")), "targets: "),
    "a status that is none": (
        _changed(lambda d: d["targets"][0]["b_opt"].update(status="good")),
        "targets.0.b_opt.status: ",
    ),
    "a loss that is no number": (_changed(lambda d: d["targets"][0].update(loss="low")), "targets.0.loss: "),
    "a list": ("[]", "the document: "),
    "half a file": (files.to_json(_fit())[:200], "the document: "),
    "empty": ("", "the document: "),
    "no JSON": ("step,loss\n1,2\n", "the document: "),
}


@pytest.mark.parametrize(("text", "place"), WRONG.values(), ids=WRONG)
def test_what_is_no_fit_is_said_to_be_none_with_the_place(tmp_path, text, place):
    path = tmp_path / "fit.json"
    path.write_text(text)
    with pytest.raises(BadInputError) as error:
        Fit.load(path)
    assert str(error.value).startswith(f"{path}: not a fit.json that this version reads: {place}")


def test_a_file_that_is_not_there_a_folder_and_bytes(tmp_path):
    for path in (tmp_path / "gone.json", tmp_path):
        with pytest.raises(BadInputError, match="cannot be read"):
            Fit.load(path)
    (tmp_path / "bytes.json").write_bytes(b"\x80\x04\x95\xff")
    with pytest.raises(BadInputError, match=r"bytes\.json: not a fit\.json"):
        Fit.load(tmp_path / "bytes.json")


def test_keys_of_a_later_minor_version_are_kept(tmp_path):
    path = tmp_path / "fit.json"
    path.write_text(_changed(lambda d: d.update(note="mine")))
    Fit.load(path).save(path)
    assert json.loads(path.read_text())["note"] == "mine"


def test_the_digest_is_that_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    assert files.sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
