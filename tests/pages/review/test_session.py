"""What the page is answered: progress, advice, filters, look-alikes, and whose decision stands."""

import shlex

import pytest

import noisebound as nb
from noisebound.cli import app
from noisebound.pages.review.session import (
    AskedDecision,
    AskedDecisions,
    AskedQueue,
    AskedUndo,
    DecidedElsewhereError,
    ReviewSession,
)
from noisebound.runs import load_run
from reviewed_runs import CLASSES, copied, text_run


@pytest.fixture
def run(reviewed_images, tmp_path):
    return copied(reviewed_images, tmp_path)


@pytest.fixture
def session(run):
    return ReviewSession(run, run.training_data(), "Ada")


def decide(session, positions, verdict="right", known=None):
    asked = [AskedDecision(position=each, verdict=verdict, known=known) for each in positions]
    return session.decide(AskedDecisions(decisions=asked, where="review", how="person"))


def waiting(session, count=120, label=None, suggested=None):
    asked = {"count": count, "label": label, "suggested": suggested, "waiting": True}
    return session.queue(AskedQueue(**asked))


def test_it_says_when_it_no_longer_pays(session):
    positions = [each["position"] for each in waiting(session)["items"]]
    progress = decide(session, positions[:49])["progress"]
    assert progress["last"] == {"of": 49, "wrong": 0}
    progress = decide(session, positions[49:50])["progress"]
    assert not progress["pays"]
    assert progress["advice"].startswith("Only 0 of the last 50 labels were wrong")
    suspects = [each["position"] for each in waiting(session)["items"] if each["probability"] > 0.5]
    assert (progress["reviewed"], progress["waiting"]) == (50, len(suspects))


def test_it_says_when_nothing_is_left(session):
    progress = decide(session, range(120), "unsure")["progress"]
    assert (progress["pays"], progress["advice"]) == (False, "Every label is checked.")
    assert session.audit()["next"] is None


def test_an_audit_answer_keeps_the_examples_it_represents(session, run):
    position = session.audit()["next"]
    asked = [AskedDecision(position=position, verdict="right")]
    session.decide(AskedDecisions(decisions=asked, where="audit", how="person"))
    decide(session, [next(each for each in range(120) if each != position)])
    kept = {each.where: each.stands_for for each in run.decisions}
    assert kept["audit"] >= 1
    assert kept["review"] is None


def test_counts_are_of_suspects_and_not_of_all_examples(session):
    """A label that is probably right is no suspect, however long the queue goes on."""
    decide(session, [each["position"] for each in waiting(session, 2)["items"]])
    items = waiting(session)["items"]
    suspects = [each for each in items if each["probability"] > 0.5]
    assert 0 < len(suspects) < len(items) == 118
    found = session.filters()
    assert session.progress()["waiting"] == len(suspects)
    assert sum(each["waiting"] for each in found["labels"]) == len(suspects)
    assert sum(each["waiting"] for each in found["pairs"]) == len(suspects)
    pair = found["pairs"][0]
    alone = waiting(session, label=pair["label"], suggested=pair["suggested"])["items"]
    assert sum(each["probability"] > 0.5 for each in alone) == pair["waiting"]


def test_look_alikes_share_label_and_suggestion(session):
    first = waiting(session)["items"][0]
    alike = session.look_alikes(first["position"])
    assert alike[0] == first | {"ticked": True}
    pairs = {(each["label"], each["suggested"]) for each in alike}
    assert pairs == {(first["label"], first["suggested"])}
    decide(session, [alike[1]["position"]])
    assert alike[1]["position"] not in {
        each["position"] for each in session.look_alikes(first["position"])
    }


def test_look_alikes_are_ticked_by_their_own_evidence(session):
    """To be like a wrong label is not evidence enough to be corrected with it."""
    shown = [session.look_alikes(each["position"]) for each in waiting(session)["items"][::10]]
    ticks = [(each["ticked"], each["probability"] > 0.5) for alike in shown for each in alike]
    assert set(ticks) == {(True, True), (False, False)}


def test_a_decision_that_was_not_seen_is_not_replaced(session, run):
    made = decide(session, [5])["made"][0]
    with pytest.raises(DecidedElsewhereError, match="your answer was not saved"):
        decide(session, [4, 5], "unsure")
    assert [each.position for each in run.decisions] == [5]  # all or nothing
    decide(session, [5], "unsure", known=made["key"])
    assert run.decisions.get(5).verdict == "unsure"


def test_decisions_of_others_are_seen_and_not_undone(session, run):
    decide(session, [3])
    before = session.progress()["version"]
    run.decide(4, None, by="Bob")
    after = session.progress()
    assert after["version"] > before
    assert after["reviewed"] == 2
    assert session.undo(AskedUndo())["undone"] == [3]
    assert session.undo(AskedUndo())["undone"] == []
    assert [each.by for each in run.decisions] == ["Bob"]


def test_all_columns_of_a_row_are_shown(tmp_path):
    """Also ids and notes, from which the model must not learn."""
    rows = [f"{number % 7},C-{number:03},{number % 2},seen {number}" for number in range(60)]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(["size,customer,kind,note", *rows]))
    options = {"target": "kind", "exclude": ["note"], "id": "customer", "model": "linear"}
    run = nb.fit(table, out=tmp_path / "run", noise_rate=0.1, epochs=2, show=False, **options)
    shown = ReviewSession(run, run.training_data(), "Ada").example(7)
    assert shown["columns"] == [("size", "0"), ("customer", "C-007"), ("note", "seen 7")]
    assert shown["name"] == "C-007 (#7)"


def test_a_position_without_an_example_is_refused(session):
    for method in (session.example, session.neighbors, session.look_alikes):
        with pytest.raises(ValueError, match="0 … 119"):
            method(120)


def test_the_commands_name_the_run_and_its_data(session, run):
    labels, fit = session.finish()["commands"]
    assert labels == f"noisebound labels {run.path} --out labels.csv"
    assert fit.startswith(f"noisebound fit {run.folder.read_origin().data} --image-size 8 ")
    assert fit.endswith(f" --corrections {run.folder.decisions} --out {run.path}-reviewed")


def test_the_command_trains_again_as_the_run_was_trained(tmp_path):
    run = text_run(tmp_path)
    run.decide(0, CLASSES[0], by="Ada")
    *_, fit = ReviewSession(run, run.training_data(), "Ada").finish()["commands"]
    app(shlex.split(fit)[1:], result_action="return_value")
    again = load_run(f"{run.path}-reviewed")
    assert again.config == run.config
    assert again.result.checks.trusted == 1


def test_decisions_undone_in_another_window_are_not_undone_again(session, run):
    first, second = decide(session, [3, 4])["made"]
    session.undo(AskedUndo(keys=[first["key"]]))
    keys = [first["key"], second["key"]]
    assert session.undo(AskedUndo(keys=keys))["undone"] == [4]
    assert session.undo(AskedUndo(keys=keys))["undone"] == []
    assert len(run.decisions) == 0
