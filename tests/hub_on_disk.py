"""A Hugging Face hub that is a folder: uploads go to the cache, laid out as the hub does."""

import shutil
from pathlib import Path

from huggingface_hub import HfApi

COMMIT = "c0ffee"


def use_hub_on_disk(monkeypatch, folder: Path) -> list[tuple[str, dict[str, object]]]:
    """Keep uploads in a folder and read from it offline; return the repositories as created."""
    created = []

    def upload(self, *, repo_id, folder_path, commit_message):
        repo = folder / f"models--{repo_id.replace('/', '--')}"
        shutil.copytree(folder_path, repo / "snapshots" / COMMIT)
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text(COMMIT)
        return f"https://huggingface.co/{repo_id}/commit/{COMMIT}"

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    monkeypatch.setattr(HfApi, "create_repo", lambda self, repo, **how: created.append((repo, how)))
    return created
