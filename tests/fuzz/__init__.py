"""A seeded fuzzer over everything that reads: files, packets and calls. By hand: `python -m tests.fuzz --help`.

A reader is given inputs that are almost right, and keeps its law: it returns an object without NaN, or raises its own error
in one sentence; it ends; it touches nothing outside its folder. A case is its seed, its reader and its number, nothing else.
"""
