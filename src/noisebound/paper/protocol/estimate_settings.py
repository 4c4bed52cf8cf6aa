"""The settings that estimates of noise are judged in: three worlds, each in two halves.

Constants are chosen on the half ``"dev"``. The half ``"judge"`` is looked at once, at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from noisebound.errors import InvalidValueError
from noisebound.models import ModelName
from noisebound.paper.protocol.planted_noise import NoiseName

World: TypeAlias = Literal["images", "features", "tables"]
Half: TypeAlias = Literal["dev", "judge"]
WORLDS: tuple[World, ...] = get_args(World)
HALVES: tuple[Half, ...] = get_args(Half)

_KINDS: tuple[NoiseName, ...] = (
    "none",
    "symmetric-0.4",
    "pairwise-0.3",
    "difficulty-0.2",
    "foretellable-0.2",
)
_PLANTED_KINDS: tuple[NoiseName, ...] = (*_KINDS, "symmetric-0.2")
_NETWORKS: dict[World, ModelName] = {
    "images": "small_mlp",
    "features": "mlp_head",
    "tables": "small_mlp",
}


@dataclass(frozen=True)
class EstimateSetting:
    """A data set with a kind of noise.

    Args:
        dataset: the data set's name
        noise: the kind of noise, with its rate
        world: where the data set comes from
        half: which half of the experiment it is in
    """

    dataset: str
    noise: NoiseName
    world: World
    half: Half

    @property
    def name(self) -> str:
        """The name of the setting, for tables and for ``--columns``."""
        return f"{self.dataset}-{self.noise}"

    @property
    def network(self) -> ModelName:
        """The network that learns it."""
        return _NETWORKS[self.world]


def _settings(
    world: World, half: Half, datasets: Sequence[str], kinds: Sequence[NoiseName] = _KINDS
) -> list[EstimateSetting]:
    return [EstimateSetting(dataset, kind, world, half) for dataset in datasets for kind in kinds]


ESTIMATE_SETTINGS: tuple[EstimateSetting, ...] = (
    *_settings("images", "dev", ("digits", "fashion-mnist")),
    *_settings("images", "judge", ("mnist",)),
    *_settings("images", "judge", ("shapes",), _PLANTED_KINDS),
    *_settings("features", "dev", ("cifar10",)),
    *_settings("features", "dev", ("cifar10n-aggregate",), ("human",)),
    *_settings("features", "judge", ("cifar10n-worst",), ("human",)),
    *_settings("features", "judge", ("noisy-ag-news",), (*_KINDS, "human")),
    *_settings(
        "tables",
        "dev",
        ("banana", "spambase", "ring", "splice", "vehicle", "contraceptive", "wdbc"),
    ),
    *_settings("tables", "dev", ("spheres", "wide", "words"), _PLANTED_KINDS),
    *_settings(
        "tables",
        "judge",
        ("phoneme", "twonorm", "chess", "vowel", "segment", "led7digit", "wine", "titanic"),
    ),
)


def find_settings(
    names: Sequence[str] | None, halves: Sequence[Half]
) -> tuple[EstimateSetting, ...]:
    """Return the settings of these halves.

    Args:
        names: names of settings, of data sets or of worlds; None for all
        halves: the halves
    """
    chosen = [setting for setting in ESTIMATE_SETTINGS if setting.half in halves]
    if names is None:
        return tuple(chosen)
    for name in names:
        if not any(name in _names(setting) for setting in chosen):
            known = dict.fromkeys(setting.dataset for setting in chosen)
            raise InvalidValueError(
                f"{name!r} is no setting of the half {' or '.join(halves)}: `columns` takes "
                f"{', '.join(WORLDS)}, data sets ({', '.join(known)}) or settings such as "
                f"{chosen[0].name}"
            )
    return tuple(setting for setting in chosen if _names(setting).intersection(names))


def _names(setting: EstimateSetting) -> set[str]:
    return {setting.name, setting.dataset, setting.world}
