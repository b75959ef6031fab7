"""Controllers as they are written on the command line."""

from pathlib import Path
from typing import Any


def controller_of(word: str, option: str = "--controllers") -> Any:
    """A name, the policy of a folder, or the function of a Python file: code that is run because its user has named it here"""
    from samara.control.registry import NAMES, tuned

    if ".py:" not in word:
        if word in NAMES and word != "policy":
            return word
        if Path(word).is_dir():
            return tuned("policy", file=word)
        raise ValueError(
            f"no controller {word!r}; expected some of {', '.join(NAMES)}, a policy's folder, or a function as file.py:function"
        )
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    path, _, name = word.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"{option} {word}: there is no file {path}; expected file.py:function")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # a file whose name ends in .py has both
    module = module_from_spec(spec)
    sys.path.insert(0, str(Path(path).resolve().parent))  # as `python file.py` has it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{option} {word}: {path} does not run ({type(error).__name__}: {error})") from None
    if not callable(getattr(module, name, None)):
        own = [key for key, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__]
        raise ValueError(f"{option} {word}: {path} has no function {name!r}; it has {', '.join(own) or 'none'}")
    return getattr(module, name)
