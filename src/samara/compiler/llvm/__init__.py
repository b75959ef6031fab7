"""Compile programs to vector code with LLVM."""
