"""Suspect labels of pixels, by image and by region, from predictions that may exceed memory.

A random sample of pixels gives the estimate and the rule by which labels are suspect; the rule is
then applied to one image at a time.
"""

import heapq
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.checks import as_array, check_count, frames_to_caller
from noisebound.errors import InvalidValueError
from noisebound.estimation.estimate import NoiseEstimate, estimate_noise
from noisebound.estimation.floor import LEAST_PROBABILITY, measured_floor, random_sample
from noisebound.estimation.noise import UnknownNoiseWarning
from noisebound.estimation.predictions import (
    Labels,
    Matrix,
    Probs,
    check_labels,
    check_predictions,
    of_label,
)
from noisebound.estimation.suspects import Suspects, suspects_by_evidence, suspects_through
from noisebound.losses import CrossEntropy

_IMAGES, _PIXELS = 256, 400  # sampled images, and pixels of each: 100,000 show the noise well


class Region(NamedTuple):
    """Adjacent pixels whose label is probably wrong, and which suggest the same other class.

    Attributes:
        image: the position of the image
        rows: the first row, and the one after the last
        columns: the first column, and the one after the last
        pixels: the number of pixels
        label: their label
        suggested: the likelier class
        expected_wrong: the expected number of wrong pixels
    """

    image: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    pixels: int
    label: int
    suggested: int
    expected_wrong: float


@dataclass(frozen=True, eq=False)
class _Rule:
    """How suspect a label is: by a matrix, or by the probability of the label alone."""

    temperature: float
    transition: Matrix | None
    known: Float64[np.ndarray, " m"]  # probabilities of labels, ascending, and their scores
    scores: Float64[np.ndarray, " m"]

    def __call__(self, probs: Probs, labels: Labels) -> Suspects:
        if self.transition is not None:
            logits = probs.clamp(min=LEAST_PROBABILITY).log()
            return suspects_through((logits / self.temperature).softmax(1), labels, self.transition)
        score = np.interp(of_label(probs, labels).numpy(), self.known, self.scores)
        return Suspects(torch.from_numpy(score), probs.scatter(1, labels[:, None], -1).argmax(1))


@dataclass(frozen=True, eq=False)
class PixelSuspects:
    """How suspect the labels of pixels are.

    Args:
        noise: the estimated noise, by a sample of the pixels
        wrong_share: the expected share of each image's labeled pixels that are wrong
        regions: the regions that are probably wrong, the one with most wrong pixels first
        probs: the given probabilities
        labels: the given masks
    """

    noise: NoiseEstimate
    wrong_share: Float64[Tensor, " n"]
    regions: tuple[Region, ...]
    probs: Any
    labels: Any
    _rule: _Rule
    _ignore_index: int

    @property
    def ranking(self) -> Int64[Tensor, " n"]:
        """The positions of the images, the most suspect first."""
        return self.wrong_share.argsort(descending=True, stable=True)

    def of_image(
        self, position: int
    ) -> tuple[Float64[Tensor, "height width"], Int64[Tensor, "height width"]]:
        """Return the probability that each pixel's label is wrong, and the likelier class.

        Pixels without a label have a probability of zero and their own label.
        """
        image = _image(self.probs, self.labels, position, self._ignore_index)
        return _judged(image, self._rule)


class _Image(NamedTuple):
    probs: Float64[Tensor, "pixels classes"]  # of the labeled pixels
    mask: Int64[Tensor, "height width"]
    is_labeled: Tensor


def find_pixel_suspects(
    probs: Any, labels: Any, *, ignore_index: int = -100, most_regions: int = 1000
) -> PixelSuspects:
    """Find the images and the regions whose segmentation masks are probably wrong.

    Images are read one by one, so that memory-mapped arrays may exceed memory.

    Args:
        probs: class probabilities ``[n, classes, height, width]`` by a model that has not memorized
            the masks, or a list of ``[classes, height, width]`` of any sizes
        labels: the masks ``[n, height, width]``, or a list of them
        ignore_index: the label of pixels without one
        most_regions: the number of regions to return

    Example:
        >>> masks = torch.zeros(5, 8, 8, dtype=torch.int64)
        >>> masks[:, :, 4:] = 1
        >>> probs = torch.nn.functional.one_hot(masks).movedim(-1, 1) * 0.8 + 0.1
        >>> masks[3, 2:4, 2:4] = 1  # a part of class 0 is labeled 1
        >>> found = find_pixel_suspects(probs, masks)
        >>> region = found.regions[0]
        >>> found.ranking[0].item(), region.rows, region.columns, region.suggested
        (3, (2, 4), (2, 4), 0)
    """
    if len(probs) != len(labels) or len(probs) == 0:
        raise InvalidValueError(
            f"`labels` must have one mask for each of {len(probs)} images, got {len(labels)}"
        )
    check_count("most_regions", most_regions)
    sample, observed = _sampled(probs, labels, ignore_index)
    check_labels(observed, sample, "probs")
    noise = estimate_noise(sample, observed)
    rule = _rule(sample, observed, noise)
    shares = torch.zeros(len(probs), dtype=torch.float64)
    regions: list[Region] = []
    for place in range(len(probs)):
        image = _image(probs, labels, place, ignore_index)
        wrong, suggested = _judged(image, rule)
        shares[place] = wrong.sum() / image.is_labeled.sum().clamp(min=1)
        regions += _regions(place, wrong, image.mask, suggested)
        regions = heapq.nlargest(most_regions, regions, key=lambda each: each.expected_wrong)
    return PixelSuspects(noise, shares, tuple(regions), probs, labels, rule, ignore_index)


def _image(probs: Any, labels: Any, place: int, ignore_index: int) -> _Image:
    """Return a checked image; nothing of it stays mapped."""
    of_image, given = (np.array(as_array(values[place])) for values in (probs, labels))
    if of_image.ndim != 3 or of_image.shape[1:] != given.shape or given.dtype.kind not in "iu":
        raise InvalidValueError(
            "`probs` must be [classes, height, width] for each image, and its mask whole numbers "
            f"of the same height and width; image {place} has {list(of_image.shape)} and a mask "
            f"{list(given.shape)} of {given.dtype}"
        )
    mask = torch.from_numpy(given.astype(np.int64))
    is_labeled = mask != ignore_index
    classes = mask[is_labeled]
    if len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < len(of_image):
        raise InvalidValueError(
            f"`labels` must lie in 0 … {len(of_image) - 1}, or be {ignore_index} where there is "
            f"none; those of image {place} are {int(classes.min())} … {int(classes.max())}"
        )
    pixels = of_image.reshape(len(of_image), -1).T[is_labeled.flatten().numpy()]
    checked = check_predictions(pixels) if len(pixels) else torch.from_numpy(pixels)
    return _Image(checked.double(), mask, is_labeled)


def _sampled(probs: Any, labels: Any, ignore_index: int) -> tuple[Probs, Labels]:
    generator = torch.Generator().manual_seed(0)
    rows, classes = [], []
    for place in torch.randperm(len(probs), generator=generator)[:_IMAGES].sort().values.tolist():
        image = _image(probs, labels, place, ignore_index)
        drawn = torch.randperm(len(image.probs), generator=generator)[:_PIXELS]
        rows.append(image.probs[drawn])
        classes.append(image.mask[image.is_labeled][drawn])
    if not any(map(len, rows)):
        raise InvalidValueError(f"no pixel has a label: all `labels` are {ignore_index}")
    return torch.cat(rows), torch.cat(classes)


def _rule(probs: Probs, labels: Labels, noise: NoiseEstimate) -> _Rule:
    found = suspects_by_evidence(probs, labels, estimate=noise)
    if not found.is_informed:
        warnings.warn(
            "no region can be called suspect: the predictions have nothing to do with the labels",
            UnknownNoiseWarning,
            stacklevel=frames_to_caller(),
        )
    sample = random_sample(len(labels))
    logits = probs[sample].clamp(min=LEAST_PROBABILITY).log()
    temperature = measured_floor(CrossEntropy(), logits, labels[sample]).temperature
    known, order = of_label(probs, labels).sort()
    scores = found.suspects.score[order].numpy()
    return _Rule(temperature, found.transition, known.numpy(), scores)


def _judged(image: _Image, rule: _Rule) -> tuple[Tensor, Tensor]:
    wrong, suggested = torch.zeros(image.mask.shape, dtype=torch.float64), image.mask.clone()
    if len(image.probs):
        found = rule(image.probs, image.mask[image.is_labeled])
        wrong[image.is_labeled] = found.probability
        if found.suggested is not None:
            suggested[image.is_labeled] = found.suggested
    return wrong, suggested


def _regions(place: int, wrong: Tensor, mask: Tensor, suggested: Tensor) -> list[Region]:
    from scipy.ndimage import find_objects, label  # takes longer to import than all of noisebound

    classes = int(max(mask.max(), suggested.max())) + 1
    pairs = torch.where(wrong > 0.5, mask * classes + suggested, -1).numpy()
    regions = []
    for pair in np.unique(pairs[pairs >= 0]).tolist():
        given, likelier = divmod(pair, classes)
        parts, _ = label(pairs == pair, structure=np.ones((3, 3)))
        sizes = np.bincount(parts.ravel()).tolist()
        expected = np.bincount(parts.ravel(), wrong.numpy().ravel()).tolist()
        regions += [
            Region(
                place,
                (rows.start, rows.stop),
                (columns.start, columns.stop),
                sizes[number],
                given,
                likelier,
                expected[number],
            )
            for number, (rows, columns) in enumerate(find_objects(parts), start=1)
        ]
    return regions
