"""`import noisebound` and the core of the library need few packages."""

import pickle
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import noisebound as nb
import noisebound.data

CORE = ("torch", "numpy", "scipy", "jaxtyping")

NOT_YET = [
    "accelerate",
    "cleanlab",
    "cyclopts",
    "datasets",
    "filelock",
    "jinja2",
    "joblib",
    "lightning",
    "lightning_fabric",
    "matplotlib",
    "pandas",
    "polars",
    "PIL",
    "pooch",
    "pyarrow",
    "pydantic",
    "pytorch_lightning",
    "ray",
    "requests",
    "rich",
    "safetensors",
    "scipy.optimize",
    "scipy.special",
    "sklearn",
    "starlette",
    "tensorboard",
    "transformers",
    "uvicorn",
]


def test_nothing_is_imported_before_it_is_needed():
    """In a new process, and beyond what torch itself imports."""
    code = (
        "import sys, torch; before = set(sys.modules); "
        "import noisebound, noisebound.integrations; "
        f"print(*(set(sys.modules) - before) & set({NOT_YET}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


QUICK = [
    ["--help"],
    ["--version"],
    *(
        [*command.split(), "--help"]
        for command in (
            *("fit", "estimate", "suspects", "review", "labels", "predict", "embed", "bound"),
            *("explore", "demo", "report", "data", "data info", "data fetch", "data cache"),
            *("reproduce", "figure", "preset"),
        )
    ),
    ["data", "list"],
]


def test_commands_show_help_and_data_sets_without_torch():
    """Each is called in one new process; the last that imports torch is named."""
    code = (
        "import sys\n"
        "from noisebound.cli import app\n"
        f"for words in {QUICK}:\n"
        "    app(words, result_action='return_value')\n"
        "    early = {'torch', 'sklearn', 'lightning_fabric', 'matplotlib'} & {*sys.modules}\n"
        "    assert not early, (words, early)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_estimator_imports_the_training_engine_when_it_trains():
    """In a new process, and beyond what scikit-learn itself imports."""
    late = ["lightning_fabric", "torchmetrics", "torch._dynamo", "polars", "pydantic", "rich"]
    code = (
        "import sys, torch, sklearn.base, sklearn.utils.validation; before = set(sys.modules); "
        "from noisebound.integrations.sklearn import NoiseBoundedClassifier; "
        f"print(*(set(sys.modules) - before) & set({late}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def installed_with(*packages):
    """Distributions that pip would install for these packages, and nothing else."""
    needed, waiting = set(), [canonicalize_name(name) for name in packages]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            wanted = (Requirement(text) for text in requires(name) or ())
            waiting += [
                canonicalize_name(need.name)
                for need in wanted
                if need.marker is None or need.marker.evaluate({"extra": ""})
            ]
    return needed


def test_the_core_needs_no_extra():
    """All that `import noisebound` makes public works where only its dependencies are installed."""
    visible = installed_with(*CORE) | {"noisebound"}
    hidden = {
        module
        for module, names in packages_distributions().items()
        if visible.isdisjoint(map(canonicalize_name, names))
    }
    assert {"sklearn", "polars", "rich", "pydantic", "cleanlab", "pandas"} <= hidden
    tour = [sys.executable, Path(__file__).with_name("core_tour.py"), *sorted(hidden)]
    run = subprocess.run(tour, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith(" works\n")


def test_packages_are_pickled_by_name():
    """A user's function in a script may name noisebound, and run in another process."""
    for package in (nb, nb.data):
        assert pickle.loads(pickle.dumps(package)) is package
