"""`import noisebound` waits for nothing that the core of the library does not need."""

import subprocess
import sys

NOT_YET = [
    "cleanlab",
    "jinja2",
    "joblib",
    "lightning",
    "lightning_fabric",
    "matplotlib",
    "pandas",
    "polars",
    "PIL",
    "pooch",
    "pydantic",
    "pytorch_lightning",
    "ray",
    "requests",
    "rich",
    "scipy.optimize",
    "scipy.special",
    "sklearn",
    "tensorboard",
    "transformers",
]


def test_nothing_is_imported_before_it_is_needed():
    """In a new process, and beyond what torch itself imports."""
    code = (
        "import sys, torch; before = set(sys.modules); import noisebound; "
        f"print(*(set(sys.modules) - before) & set({NOT_YET}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
