"""Texts of strangers made fit to be shown: names and paths come from files that others wrote."""

from unicodedata import category

STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # Unicode's control, format and half characters, and its other line ends


def printable(text: str) -> str:
    """The text with every character that would steer a terminal written as Python writes it: "\\x1b" for escape."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or category(letter) not in STEERING else ascii(letter)[1:-1] for letter in text
    )
