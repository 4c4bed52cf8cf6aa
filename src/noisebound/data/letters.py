"""Texts that no file could hold, made whole."""


def whole_letters(text: str) -> str:
    r"""Return a text whose halves of letters are joined, or replaced where the other half lacks.

    Programs that count in UTF-16 leave half an emoji where they cut a text, which no table, no file
    and no tokenizer takes. Nothing can be learned from the half alone.

    Example:
        >>> whole_letters("x \ud83d y") == "x \ufffd y"
        True
        >>> whole_letters("\ud83d\ude00") == "\U0001f600"
        True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
