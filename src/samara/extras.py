"""Packages that not everybody needs: what is said where one is missing."""


class MissingExtraError(ImportError):
    """One sentence: what needs a package, and the line that installs it."""
