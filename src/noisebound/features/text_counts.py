"""How well texts suit an encoder: how many it cuts, and how many it does not know the words of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextCounts:
    """Counts of texts.

    Args:
        texts: the number of all texts
        cut: the number of those with more tokens than the encoder takes
        unknown: the number of those that consist mostly of words that the encoder does not know
        limit: how many tokens of a text the encoder takes
    """

    texts: int
    cut: int
    unknown: int
    limit: int

    def __add__(self, other: "TextCounts") -> "TextCounts":
        """Return the counts of the texts of both."""
        return TextCounts(
            self.texts + other.texts,
            self.cut + other.cut,
            self.unknown + other.unknown,
            self.limit,
        )

    def notes(self) -> tuple[str, ...]:
        """Return what the user should know, a sentence each."""
        found = []
        if self.cut:
            found.append(
                f"{self.cut} of {self.texts} texts are longer than the {self.limit} tokens that "
                "the encoder takes, and were cut"
            )
        if self.unknown:
            found.append(
                f"{self.unknown} of {self.texts} texts consist mostly of words that the encoder "
                "does not know: it was made for another language or script; choose a "
                "multilingual `backbone` if there are many"
            )
        return tuple(found)
