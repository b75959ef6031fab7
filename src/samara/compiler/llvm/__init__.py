"""Compile programs to vector code with LLVM."""

from samara.core.lazy_import import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
