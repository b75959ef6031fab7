"""Warnings about inputs that are valid but hardly meant, once per process and subject."""

import warnings


class ImplausibleWarning(UserWarning):
    """An input is valid but hardly meant, such as a mass in grams, a command in percent, or a step of many time constants."""


_WARNED: set[str] = set()


def warn_once(subject: str, message: str) -> None:
    """Issue an `ImplausibleWarning`, the first time in this process for its subject."""
    if subject not in _WARNED:
        _WARNED.add(subject)
        warnings.warn(message, ImplausibleWarning, stacklevel=4)
