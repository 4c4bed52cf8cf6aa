import pytest

from noisebound.cli import app
from noisebound.data import load
from noisebound.data.files import KINDS, cache_folder
from published_files import plain_image


def cache(*arguments):
    app(["data", "cache", *arguments], result_action="return_value")


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """Two decoded images, a download, a part of a killed process, and what is not noisebound's."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("noisebound.data.images._WORTH_CACHING", 2)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "x.png").write_bytes(plain_image(9, 8, "PNG"))
    load(tmp_path / "pets")
    for name in ("mnist/x.gz", "embeddings/.x.safetensors.0a.part", "mine/x"):
        (cache_folder() / name).parent.mkdir(exist_ok=True)
        (cache_folder() / name).write_bytes(bytes(1000))
    return tmp_path / "pets"


def decoded_size():
    (path,) = (cache_folder() / "decoded").iterdir()
    return path.stat().st_size


def test_everything_is_listed_with_its_size(filled, capsys):
    cache()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [
        "decoded",
        "outputs",
        "downloaded",
    ]
    assert f"{decoded_size()} bytes" in lines[1]
    assert str(cache_folder() / "decoded") in lines[1]
    assert " no " in lines[3]
    assert lines[-1].endswith(f"kept in {cache_folder()}")


def test_only_files_that_can_be_made_again_are_cleared(filled, capsys):
    cache("--clear")
    assert "removed in" in capsys.readouterr().out
    assert sorted(path.name for path in cache_folder().iterdir()) == ["mine", "mnist"]
    assert len(load(filled).train) == 2
    assert (cache_folder() / "decoded").is_dir()


def test_an_empty_cache(capsys):
    for arguments in ((), ("--clear",)):
        cache(*arguments)
        assert capsys.readouterr().out.startswith("0 bytes ")


def test_no_kind_is_a_data_set():
    """Or clearing it would remove a download."""
    from noisebound.data import DATASETS

    assert not KINDS.keys() & {part.folders[0] for each in DATASETS.values() for part in each.parts}
