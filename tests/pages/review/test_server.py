"""The server answers its own page only, and says clearly what it refuses."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noisebound.errors import InvalidValueError
from noisebound.pages.review.serve import ReviewServer
from noisebound.pages.review.session import ReviewSession
from processes import environment
from reviewed_runs import ask, copied, served


@pytest.fixture(scope="module")
def reviewed(reviewed_images, tmp_path_factory):
    return copied(reviewed_images, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def server(reviewed):
    with served(reviewed) as server:
        yield server


@pytest.fixture
def run(reviewed):
    """Return the run without a decision."""
    reviewed.folder.decisions.unlink(missing_ok=True)
    return reviewed


def own(server):
    return {"Origin": f"http://127.0.0.1:{server.port}", "Content_Type": "application/json"}


def decide(server, path="api/decisions", **headers):
    decision = {"position": 0, "verdict": "unsure"}
    body = json.dumps({"decisions": [decision], "where": "review", "how": "person"})
    return ask(server, f"/{server.token}/{path}", "POST", body, **headers)


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_site_may_not(server, run, changed):
    status, content, _ = decide(server, **own(server) | changed)
    assert status == 403
    assert content.startswith(b"This server answers to ")
    assert len(run.decisions) == 0


def test_nor_who_hides_where_it_comes_from(server, run):
    assert decide(server, Content_Type="application/json")[0] == 403
    assert len(run.decisions) == 0


def test_a_window_may_come_from_elsewhere_and_nothing_else(server):
    window = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    page, answer = f"/{server.token}/", f"/{server.token}/api/about"
    assert ask(server, page, **window, Sec_Fetch_Dest="document")[0] == 200
    assert ask(server, page, **window, Sec_Fetch_Dest="iframe")[0] == 403
    assert ask(server, answer, **window, Sec_Fetch_Dest="document")[0] == 403
    assert ask(server, "/guess/", **window, Sec_Fetch_Dest="document")[0] == 403


def test_a_form_of_another_site_may_not_post(server, run):
    """A browser sends a form's types without asking the server first."""
    assert decide(server, **own(server) | {"Content_Type": "text/plain"})[0] == 415
    assert len(run.decisions) == 0


@pytest.mark.parametrize("token", ["", "x" * 32, "%00", "api"])
def test_without_the_token_requests_are_refused(server, token):
    for path in ("", "/", "/api/about", "/pictures/0/large"):
        status, content, _ = ask(server, f"/{token}{path}")
        assert (status, b"token" in content) == (403, True)


def test_it_may_be_called_localhost(server):
    path = f"/{server.token}/api/about"
    assert ask(server, path, Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "../pyproject.toml",
        "..%2f..%2fsession.py",
        "pictures/../../../etc/passwd",
        "pictures/..%2f..%2f..%2fetc%2fpasswd/large",
        "pictures/0/..%2flarge",
        "pictures/-1/large",
        "%2e%2e/session.py",
        "page/index.html",
    ],
)
def test_no_path_leads_out(server, path):
    assert ask(server, f"/{server.token}/{path}")[0] == 404


def test_a_number_beyond_the_data_is_refused(server):
    status, content, _ = ask(server, f"/{server.token}/pictures/120/large")
    assert (status, "0 … 119" in content.decode()) == (400, True)


def test_the_page_may_load_nothing_from_elsewhere(server):
    _, content, headers = ask(server, f"/{server.token}/")
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert b"//" not in content.replace(b"<!doctype", b"")


@pytest.mark.parametrize(
    "body",
    [
        "no JSON",
        "{}",
        '{"decisions": [], "where": "review", "how": "person"}',
        '{"decisions": [{"position": "0", "verdict": "right"}], "where": "audit", "how": "bulk"}',
        '{"decisions": [{"position": 999, "verdict": "right"}], "where": "review", "how": "bulk"}',
        '{"decisions": [{"position": 0, "verdict": "wrong", "label": "no class"}], '
        '"where": "review", "how": "person"}',
        '{"decisions": [{"position": 0, "verdict": "right"}], "where": "there", "how": "person"}',
    ],
)
def test_invalid_requests_are_refused_in_words(server, run, body):
    path = f"/{server.token}/api/decisions"
    status, content, _ = ask(server, path, "POST", body, **own(server))
    assert status == 400
    assert json.loads(content)["error"]
    assert len(run.decisions) == 0


def test_too_much_at_once_is_refused(server):
    path = f"/{server.token}/api/decisions"
    assert ask(server, path, "POST", " " * (2**20 + 1), **own(server))[0] == 413


def test_a_port_that_is_taken(server, run):
    session = ReviewSession(run, run.training_data(), "Ada")
    with pytest.raises(InvalidValueError, match=f"`port` {server.port} cannot be used"):
        ReviewServer(session, server.port)


def test_each_server_has_its_own_token(server, run):
    with served(run) as other:
        assert other.token != server.token
        assert len(other.token) >= 32


def test_its_own_page_may_decide_and_undo(server, run):
    """This comes last, because the server has read what the file holds then."""
    status, content, _ = decide(server, **own(server))
    assert status == 200
    (made,) = json.loads(content)["made"]
    assert (made["position"], made["verdict"], made["by"]) == (0, "unsure", "Ada")
    assert run.decisions.get(0).verdict == "unsure"
    path = f"/{server.token}/api/undo"
    status, content, _ = ask(server, path, "POST", '{"keys": null}', **own(server))
    assert (status, json.loads(content)["undone"]) == (200, [0])
    assert len(run.decisions) == 0


def test_the_browsers_command_line_does_not_hold_the_token(run, tmp_path):
    """Every user of the machine can list it: the file that it names is the owner's alone."""
    seen = tmp_path / "seen"
    script = tmp_path / "browser"
    script.write_text(
        '#!/bin/sh\nfile="${1#file://}"\n'
        f'stat -c %a "$(dirname "$file")" "$file" > {seen}.part\necho "$@" >> {seen}.part\n'
        f'cat "$file" >> {seen}.part\nmv {seen}.part {seen}\n'
    )
    script.chmod(0o700)
    command = [sys.executable, "-m", "noisebound", "review", str(run.path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment() | {"BROWSER": f"{script} %s"},
    )
    address = re.search(r"http://\S+/", process.stdout.readline())[0]
    for line in process.stdout:  # the browser is started after the last line
        if "Ctrl-C" in line:
            break
    while not seen.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait()
    process.stdout.close()
    folder_mode, file_mode, opened, *page = seen.read_text().splitlines()
    assert (folder_mode, file_mode) == ("700", "600")
    token = address.split("/")[3]
    assert token not in opened
    assert address in "\n".join(page)
    assert not Path(opened.removeprefix("file://")).exists()
