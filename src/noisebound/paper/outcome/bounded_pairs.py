"""In how many pairs of a loss without and with its bound the bound helps."""

from noisebound.catalog import LossName
from noisebound.paper.outcome.contest import Contest
from noisebound.paper.outcome.statistics import paired_gain
from noisebound.paper.protocol.contenders import Knowledge

_BOUNDS: dict[Knowledge, str] = {
    "noise rate": "the bound of the noise rate",
    "nothing": "the bound that is measured",
}


def pairs_in_words(contest: Contest) -> str:
    """Return in how many pairs the bound helps, for each way to come by it; empty if in none."""
    plain = {
        each.loss: name
        for name, each in contest.contenders.items()
        if each.knows == "noise rate" and not LossName.parse(each.loss).is_bounded
    }
    sentences = []
    for knows, words in _BOUNDS.items():
        gains = []
        for name, each in contest.contenders.items():
            if each.recipe is not None:
                continue  # its loss is what the trials choose
            loss = LossName.parse(each.loss)
            if loss.is_bounded and each.knows == knows and str(loss.plain) in plain:
                for column in contest.columns:
                    without = contest.accuracies(column, plain[str(loss.plain)])
                    gain = paired_gain(without, contest.accuracies(column, name))
                    gains += [] if gain is None else [gain.mean]
        if gains:
            helped = sum(gain >= 0 for gain in gains)
            sentences.append(
                f"{words} helps in {helped} of {len(gains)} pairs ({helped / len(gains):.0%}, "
                f"counting ties), by {sum(gains) / len(gains):+.1f} points on average, and by "
                f"{min(gains):+.1f} in the worst"
            )
    return "; ".join(sentences).capitalize() + "." if sentences else ""
