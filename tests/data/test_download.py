"""Downloads from a real server on this machine, which can be made to fail."""

import hashlib
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from noisebound.data.download import download
from noisebound.errors import DataError

CONTENT = bytes(range(256)) * 4000
HASH = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves ``content``; hangs up after ``hang_up_after`` bytes if that is set."""

    content = CONTENT
    hang_up_after: int | None = None
    honors_range = True
    status = 200
    pause = 0.0

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requested_ranges = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        wanted = self.headers["Range"]
        server.requested_ranges.append(wanted)
        if server.status != 200:
            self.send_error(server.status)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted else 0
        if wanted and server.honors_range and start >= len(server.content):
            self.send_error(416)
            return
        start = start if server.honors_range else 0
        body = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        time.sleep(server.pause)
        self.wfile.write(body[: server.hang_up_after])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def files_in(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_download(server, tmp_path):
    path = download(server.url, HASH, tmp_path / "file.bin")
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == ["file.bin"]


def test_what_is_there_is_not_downloaded_again(server, tmp_path):
    for _ in range(2):
        download(server.url, HASH, tmp_path / "file.bin")
    assert len(server.requested_ranges) == 1


def test_interrupted_download_goes_on_where_it_was(server, tmp_path):
    server.hang_up_after = 300_000
    with pytest.raises(DataError, match=r"file\.bin could not be downloaded"):
        download(server.url, HASH, tmp_path / "file.bin")
    assert files_in(tmp_path) == ["file.bin.part"]
    kept = (tmp_path / "file.bin.part").read_bytes()  # all but the last, incomplete piece
    assert 200_000 < len(kept) <= 300_000
    assert CONTENT.startswith(kept)
    server.hang_up_after = None
    assert download(server.url, HASH, tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.requested_ranges == [None, f"bytes={len(kept)}-"]
    assert files_in(tmp_path) == ["file.bin"]


def test_server_that_cannot_resume(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    server.honors_range = False
    assert download(server.url, HASH, tmp_path / "file.bin").read_bytes() == CONTENT


def test_everything_but_the_last_step_was_done(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download(server.url, HASH, tmp_path / "file.bin").read_bytes() == CONTENT


def test_wrong_content_is_refused_and_not_kept(server, tmp_path):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(DataError, match=rf"not file\.bin as published .*{HASH}"):
        download(server.url, HASH, tmp_path / "file.bin")
    assert files_in(tmp_path) == []
    server.content = CONTENT
    assert download(server.url, HASH, tmp_path / "file.bin").read_bytes() == CONTENT


def test_remains_of_another_file_do_not_spoil_it_for_ever(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"not file\.bin as published"):
        download(server.url, HASH, tmp_path / "file.bin")
    assert download(server.url, HASH, tmp_path / "file.bin").read_bytes() == CONTENT


def test_no_network(server, tmp_path):
    """The error names the file, its hash and the folder to put it in."""
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError) as caught:
        download(server.url, HASH, tmp_path / "deep" / "file.bin")
    for part in (server.url, HASH, str(tmp_path / "deep" / "file.bin"), "by hand"):
        assert part in str(caught.value)


def test_not_found(server, tmp_path):
    server.status = 404
    with pytest.raises(DataError, match=r"could not be downloaded .*404"):
        download(server.url, HASH, tmp_path / "file.bin")
    assert files_in(tmp_path) == []


def test_two_processes_want_the_same_file(server, tmp_path):
    server.pause = 0.5
    script = "import sys; from pathlib import Path; from noisebound.data.download import download; "
    script += "download(sys.argv[1], sys.argv[2], Path(sys.argv[3]))"
    command = [sys.executable, "-c", script, server.url, HASH, tmp_path / "file.bin"]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert len(server.requested_ranges) == 1
