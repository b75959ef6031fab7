"""Compile programs to vector code with LLVM."""

from samara.core.lazy_import import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, __path__)
