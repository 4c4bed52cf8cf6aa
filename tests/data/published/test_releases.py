"""Files are found in every search folder, and must be the published ones."""

import gzip
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from noisebound.data import DATASETS, DataError
from noisebound.data.load import load, load_published
from noisebound.data.published import find_published
from noisebound.data.published.mnist import read_pairs
from noisebound.data.published.releases import Part, Published, PublishedFile, download
from published_files import some_images, write_idx_pair

NAMES = [
    f"{prefix}-{kind}-ubyte.gz"
    for prefix in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
]


def write_small(folder, shade=0):
    for prefix, count in (("train", 6), ("t10k", 4)):
        images = np.full((count, 5, 5), shade, np.uint8)
        write_idx_pair(folder, prefix, images, np.arange(count) % 2)


def md5(content):
    return "md5:" + hashlib.md5(content).hexdigest()


@pytest.fixture
def small(tmp_path):
    """A small data set in MNIST's format, whose files are in no search folder yet."""
    (tmp_path / "data").mkdir()
    write_small(tmp_path / "origin")
    files = tuple(
        PublishedFile(name=name, hashes=(md5((tmp_path / "origin" / name).read_bytes()),))
        for name in NAMES
    )
    read = partial(read_pairs, train=NAMES[0], test=NAMES[2], class_names=("zero", "one"))
    part = Part(
        folders=("small", "SMALL/raw"), releases=(files,), how_to_obtain="ask for it and put it"
    )
    return Published(name="small", title="a title", parts=(part,), counts=(6, 4), read=read)


def place(tmp_path, folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "origin").rename(folder)


@pytest.mark.parametrize("folder", ["data/small", "data/SMALL/raw", "cache/small", "debian/small"])
def test_every_search_folder_is_searched(small, tmp_path, folder):
    place(tmp_path, tmp_path / folder)
    splits = load_published(small, tmp_path / "data")
    assert splits.source == str(tmp_path / folder)
    assert (len(splits.train), len(splits.test)) == (6, 4)


def test_data_dir_may_be_the_folder_of_the_data_set(small, tmp_path):
    place(tmp_path, tmp_path / "data" / "small")
    assert len(load_published(small, tmp_path / "data" / "small").train) == 6


def test_data_dir_may_be_the_working_directory(small, tmp_path, monkeypatch):
    place(tmp_path, tmp_path / "data" / "small")
    monkeypatch.chdir(tmp_path / "data" / "small")
    assert len(load_published(small, ".").train) == 6


def test_data_dir_must_be_a_folder(small, tmp_path):
    with pytest.raises(DataError, match=r"`data_dir` must be a folder, got .*dtaa"):
        load_published(small, tmp_path / "dtaa")


def test_environment_names_the_folder(small, tmp_path, monkeypatch):
    place(tmp_path, tmp_path / "elsewhere" / "small")
    monkeypatch.setenv("NOISEBOUND_DATA", str(tmp_path / "elsewhere"))
    assert len(load_published(small).train) == 6


def test_order_of_search_folders(small, tmp_path):
    """The given folder is searched before the cache, and the cache before Debian's folder."""
    for folder in ("debian", "cache", "data"):
        write_small(tmp_path / folder / "small")
        assert load_published(small, tmp_path / "data").source == str(tmp_path / folder / "small")


def test_missing_data_set(small, tmp_path):
    with pytest.raises(DataError) as caught:
        load_published(small, tmp_path / "data")
    assert "ask for it and put it in" in str(caught.value)
    assert str(tmp_path / "data" / "small") in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_altered_file_is_refused_by_name(small, tmp_path, name):
    folder = tmp_path / "data" / "small"
    place(tmp_path, folder)
    content = bytearray((folder / name).read_bytes())
    content[-9] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name} is not the file that was published: its md5 is"):
        load_published(small, tmp_path / "data")


@pytest.mark.parametrize("keep", [0, 1, 20, -1])
def test_truncated_file_is_refused_by_name(small, tmp_path, keep):
    folder = tmp_path / "data" / "small"
    place(tmp_path, folder)
    content = (folder / NAMES[0]).read_bytes()
    (folder / NAMES[0]).write_bytes(content[:keep])
    with pytest.raises(DataError, match=f"{NAMES[0]} is not the file that was published"):
        load_published(small, tmp_path / "data")


def test_incomplete_release_is_not_found(small, tmp_path):
    place(tmp_path, tmp_path / "data" / "small")
    (tmp_path / "data" / "small" / NAMES[3]).unlink()
    with pytest.raises(DataError, match="ask for it"):
        load_published(small, tmp_path / "data")


def test_a_second_known_hash_is_accepted(small, tmp_path):
    """Files like Debian's, which are compressed again, are known by a second hash."""
    folder = tmp_path / "data" / "small"
    place(tmp_path, folder)
    repacked = gzip.compress(gzip.decompress((folder / NAMES[0]).read_bytes()), 1, mtime=7)
    (folder / NAMES[0]).write_bytes(repacked)
    with pytest.raises(DataError, match="not the file"):
        load_published(small, tmp_path / "data")
    (part,) = small.parts
    (release,) = part.releases
    first = release[0].model_copy(update={"hashes": (*release[0].hashes, md5(repacked))})
    widened = part.model_copy(update={"releases": ((first, *release[1:]),)})
    known = small.model_copy(update={"parts": (widened,)})
    assert len(load_published(known, tmp_path / "data").train) == 6


def test_unpacked_emnist_is_held_to_its_counts(tmp_path):
    folder = tmp_path / "emnist"
    for part in ("train", "test"):
        write_idx_pair(folder, f"emnist-balanced-{part}", some_images(47, 4, 4), np.arange(47))
    with pytest.raises(DataError, match=r"47 training .* 112800 and 18800: .* by its path"):
        load("emnist", data_dir=tmp_path)
    splits = load(folder)
    np.testing.assert_array_equal(
        splits.train.inputs[:, 0], some_images(47, 4, 4).transpose(0, 2, 1)
    )
    assert splits.train.class_names[36:39] == ("a", "b", "d")


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("MNIST", "mnist"),
        ("FashionMNIST", "fashion-mnist"),
        ("fashion_mnist", "fashion-mnist"),
        ("CIFAR-10", "cifar10"),
        ("CIFAR-10N-worst", "cifar10n-worst"),
        ("TinyImageNet", "tiny-imagenet"),
    ],
)
def test_case_and_hyphens_of_names_do_not_matter(spelled, name):
    assert find_published(spelled) is DATASETS[name]


@pytest.mark.parametrize(("given", "named"), [(True, "`data_dir`"), (False, "NOISEBOUND_DATA")])
def test_the_message_names_the_option_or_variable(small, tmp_path, monkeypatch, given, named):
    monkeypatch.setenv("NOISEBOUND_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=f"^{named} must be a folder, got .*nowhere"):
        load_published(small, tmp_path / "nowhere" if given else None)


def test_every_download_has_a_hash():
    files = [
        file
        for published in DATASETS.values()
        for part in published.parts
        for release in part.releases
        for file in release
    ]
    assert len(files) > 30
    for file in files:
        assert file.url is None or file.hashes
        for known in file.hashes:
            algorithm, _, digest = known.partition(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size


CONTENT = bytes(range(256)) * 4000
HASH = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves ``content``; hangs up after ``hang_up_after`` bytes if that is set."""

    content = CONTENT
    hang_up_after: int | None = None
    status = 200

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests += 1
        if server.status != 200:
            self.send_error(server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content[: server.hang_up_after])

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


def test_existing_files_are_not_downloaded_again(server, tmp_path):
    for _ in range(2):
        path = download(server.url, HASH, tmp_path / "file.bin")
        assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == ["file.bin"]
    assert server.requests == 1


def test_an_interrupted_download_leaves_nothing(server, tmp_path):
    server.hang_up_after = 300_000
    with pytest.raises(DataError, match=r"file\.bin could not be downloaded"):
        download(server.url, HASH, tmp_path / "file.bin")
    assert files_in(tmp_path) == []
    server.hang_up_after = None
    assert download(server.url, HASH, tmp_path / "file.bin").read_bytes() == CONTENT


def test_wrong_content_is_refused_and_not_kept(server, tmp_path):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(DataError, match=rf"file\.bin could not be downloaded .*{HASH}"):
        download(server.url, HASH, tmp_path / "file.bin")
    assert files_in(tmp_path) == []
    server.content = CONTENT
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


def test_two_threads_download_a_file_once(server, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(download, server.url, HASH, tmp_path / "file.bin") for _ in range(2)]
        assert [each.result().read_bytes() for each in found] == [CONTENT] * 2
    assert server.requests == 1
