"""A seeded fuzzer over everything that reads: files, packets and calls. By hand: `python -m tests.fuzz --help`.

A reader gets inputs that are almost right, and must obey its law: it returns an object without NaN, or raises its error in one
sentence; it terminates; it touches nothing outside its folder. A case is determined by its seed, its reader and its number.
"""
