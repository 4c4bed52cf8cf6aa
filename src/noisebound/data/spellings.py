"""Labels that differ by case or spaces only: probably one class, written in several ways."""

from collections.abc import Collection, Mapping


def spellings(counts: Mapping[str, int], usual: Collection[str] = ()) -> list[list[str]]:
    """Return the labels that are one but for case and spaces, each group's usual spelling first.

    That is the most frequent of those without spaces around it, if there are any.

    Args:
        counts: how often each label occurs
        usual: labels that are the usual spelling however rare they are, such as known classes

    Example:
        >>> spellings({"stay": 5, " stay": 1, "Stay": 2, "go": 3})
        [['stay', 'Stay', ' stay']]
    """

    def rank(label: str) -> tuple[bool, bool, int, str]:
        return label not in usual, label != label.strip(), -counts[label], label

    groups: dict[str, list[str]] = {}
    for label in sorted(counts, key=rank):
        groups.setdefault(" ".join(label.casefold().split()), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def note_of_spellings(counts: Mapping[str, int]) -> str:
    """Return what to tell the user of labels that differ by case or spaces only; empty if none."""
    groups = spellings(counts)
    if not groups:
        return ""
    return (
        "labels differ by case or spaces only, and count as different classes: "
        f"{listed_spellings(groups)}; to make them one: `merge_labels`"
    )


def listed_spellings(groups: list[list[str]], most: int = 5) -> str:
    """Return groups of labels in words, the first of them if they are many."""
    shown = "; ".join(", ".join(repr(label) for label in group) for group in groups[:most])
    return shown + (f" and {len(groups) - most} more" if len(groups) > most else "")
