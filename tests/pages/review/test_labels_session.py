"""The review of all labels of an example at once."""

import numpy as np
import pytest

import noisebound as nb
from multi_label_data import NAMES, as_table, examples
from noisebound.errors import InvalidValueError
from noisebound.pages.review.labels_session import AskedLabels, LabelsSession
from noisebound.pages.review.session import AskedUndo, DecidedElsewhereError
from noisebound.runs import load_run
from reviewed_runs import ask, served_session

X, TRUE, NOISY = examples(160)
HOLED = np.where(np.arange(160)[:, None] % 20 == 0, [[1, 0, -1]], NOISY)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    as_table(X, HOLED).write_csv(folder / "table.csv")
    options = {"targets": NAMES, "quick": True, "n_jobs": 1, "show": False, "report": False}
    return nb.fit(folder / "table.csv", out=folder / "run", **options)


@pytest.fixture
def session(fitted):
    for run in fitted.runs.values():
        run.folder.decisions.unlink(missing_ok=True)
    return LabelsSession(load_run(fitted.path), fitted.training_data(), "Ada")


def asked(example, **changed):
    present = {each["name"]: each["present"] for each in example["toggles"] if "present" in each}
    known = {each["name"]: (each.get("decision") or {}).get("key") for each in example["toggles"]}
    return AskedLabels(position=example["position"], present=present | changed, known=known)


def test_the_most_suspect_pair_comes_first_and_its_label_first(session, fitted):
    first = fitted.suspects().row(0, named=True)
    position = session.following()["next"]
    example = session.example(position)
    assert example["toggles"][0]["probability"] == pytest.approx(first["probability_wrong"])
    assert {each["name"] for each in example["toggles"]} == set(NAMES)
    suspicion = [each["is_suspect"] for each in example["toggles"]]
    assert suspicion == sorted(suspicion, reverse=True)


def test_saving_decides_all_labels_each_in_its_own_file(session, fitted):
    example = session.example(session.following()["next"])
    wrong = example["toggles"][0]
    answer = session.decide(asked(example, **{wrong["name"]: not wrong["given"]}))
    assert len(answer["made"]) == answer["progress"]["reviewed"] == 3
    for name, run in fitted.runs.items():
        (made,) = run.decisions
        assert made.verdict == ("wrong" if name == wrong["name"] else "right")
        assert made.by == "Ada"
    shown = session.example(example["position"])["toggles"]
    assert {each["name"]: each["present"] for each in shown}[wrong["name"]] != wrong["given"]
    assert session.following()["next"] != example["position"]
    assert session.finish()["changed"] == 1
    with pytest.raises(DecidedElsewhereError, match="Another window has decided about #"):
        session.decide(asked(example))
    assert session.undo(AskedUndo(keys=answer["made"]))["undone"] == [example["position"]]
    assert session.progress()["reviewed"] == 0
    assert session.following()["next"] == example["position"]


def test_a_label_that_is_not_known_has_no_decision(session, fitted):
    example = session.example(20)
    unknown = next(each for each in example["toggles"] if each["name"] == "loop")
    assert unknown["given"] is None
    assert len(session.decide(asked(example))["made"]) == 2
    assert len(fitted.runs["loop"].decisions) == 0
    assert next(iter(fitted.runs["odd"].decisions)).position == 20


def test_an_unusable_example_is_so_for_every_label(session, fitted):
    known = dict.fromkeys(NAMES)
    session.decide(AskedLabels(position=7, present=None, known=known))
    assert all(next(iter(run.decisions)).verdict == "unusable" for run in fitted.runs.values())
    assert session.finish()["unusable"] == 3
    with pytest.raises(InvalidValueError, match="there is no example 500"):
        session.example(500)


def test_the_commands_and_the_labels_of_all(session, fitted):
    labels, fit = session.finish()["commands"]
    assert labels == f"noisebound labels {fitted.path} --out labels.csv"
    assert f"--corrections {fitted.path} --out {fitted.path}-reviewed" in fit
    assert session.labels().decode().startswith("example,odd,large,loop,changed\n")


def test_the_server_answers_for_the_session(session):
    with served_session(session) as server:
        base = f"/{server.token}"
        status, content, _ = ask(server, f"{base}/api/next", Host=f"127.0.0.1:{server.port}")
        assert (status, b"next" in content) == (200, True)
        assert ask(server, f"{base}/api/audit", Host=f"127.0.0.1:{server.port}")[0] == 404
