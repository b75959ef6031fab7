"""Machine code from the disk is bit-identical to the compiler's, and no other file content is ever executed."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from samara.compiler.compiled_step import CompiledStep
from samara.compiler.llvm import cache as llvm_cache
from samara.compiler.llvm import codegen
from samara.compiler.llvm.cache import HEADER, MAGIC, cache_folder, digest, load_or_compile


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMARA_CACHE", str(tmp_path / "cache"))
    return cache_folder()


@pytest.fixture
def compiled(monkeypatch):
    """Record the optimisation level of every compilation by LLVM."""
    levels, optimised = [], codegen._optimise

    def record_level(source, machine, effort):
        levels.append(effort)
        return optimised(source, machine, effort)

    monkeypatch.setattr(codegen, "_optimise", record_level)
    return levels


def logistic(rate, effort=1):
    """x ← r x (1 − x), seven times, by code that is new to this process."""
    machine = CompiledStep(
        lambda x, r: (r[0] * x[0] * (1.0 - x[0]),), (0.3,), (rate,), optimisation_level=effort
    ).machine()
    machine.run(7)
    return machine.carry[0, 0]


def expected_orbit(rate):
    x = 0.3
    for _ in range(7):
        x = rate * x * (1.0 - x)
    return x


KEY, CODE = digest("a key"), b"\x90" * 1000
PATH = f"{KEY.hex()}.code"


def cache_file(key=KEY, content=CODE):
    return HEADER.pack(MAGIC, key, digest(content), len(content)) + content


def test_code_is_compiled_once_and_gives_the_same_bits(folder, compiled):
    """The second time it comes from the disk; another optimisation level is other code."""
    assert [logistic(3.7), logistic(3.7)] == [expected_orbit(3.7)] * 2
    assert compiled == [1]
    assert logistic(3.7, effort=3) == expected_orbit(3.7)
    assert compiled == [1, 3]
    assert logistic(3.9) == expected_orbit(3.9)  # a held input is not part of the code
    assert compiled == [1, 3]
    assert len(list(folder.iterdir())) == 2


def test_another_cpu_or_compiler_has_other_code(folder, compiled, monkeypatch):
    logistic(3.7)
    key_parts = codegen._compiler()
    for k in range(len(key_parts)):
        changed = (*key_parts[:k], key_parts[k] + "x", *key_parts[k + 1 :])
        monkeypatch.setattr(codegen, "_compiler", lambda changed=changed: changed)
        assert logistic(3.7) == expected_orbit(3.7)
    assert len(compiled) == len(list(folder.iterdir())) == 1 + len(key_parts) == 6


def test_parts_of_a_key_do_not_run_together():
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", ""), digest("c", "ab")}) == 5


BROKEN = {
    "empty": b"",
    "shorter than its head": cache_file()[: HEADER.size - 1],
    "cut": cache_file()[:-1],
    "longer": cache_file() + b"\0",
    "a byte changed": cache_file()[:-500] + b"\x91" + cache_file()[-499:],
    "of another key": cache_file(key=digest("another")),
    "of another program": b"\x7fELF" + bytes(2000),
    "of another format": cache_file().replace(MAGIC, b"samara code 0\n"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_file_is_written_again(folder, name):
    (folder / PATH).write_bytes(BROKEN[name])
    (folder / PATH).chmod(0o600)
    assert load_or_compile(KEY, lambda: CODE) == CODE
    assert (folder / PATH).read_bytes() == cache_file()
    assert load_or_compile(KEY, lambda: b"never asked") == CODE


def test_every_byte_of_a_file_counts(folder):
    """Each byte changed in turn: the content is never used."""
    for position in range(len(cache_file(content=CODE[:16]))):
        data = bytearray(cache_file(content=CODE[:16]))
        data[position] ^= 1
        (folder / PATH).write_bytes(data)
        (folder / PATH).chmod(0o600)
        assert load_or_compile(KEY, lambda: b"made") == b"made"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs a system with owners of files")
def test_files_of_others_are_not_read(folder, tmp_path, monkeypatch):
    """A file that others may write to, one behind a link, a folder of another user, a folder that is open to all."""
    path, elsewhere = folder / PATH, tmp_path / "elsewhere"
    path.write_bytes(cache_file(content=b"foreign"))
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        assert llvm_cache._read(path, KEY) is None
    path.chmod(0o644)  # others may read
    assert load_or_compile(KEY, lambda: CODE) == b"foreign"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert load_or_compile(KEY, lambda: CODE) == CODE
    assert elsewhere.read_bytes() == cache_file(content=b"foreign") and not path.is_symlink()
    folder.chmod(0o777)
    assert cache_folder() is None
    folder.chmod(0o700)
    assert cache_folder() == folder
    someone = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: someone)
    assert cache_folder() is None
    assert load_or_compile(KEY, lambda: b"made") == b"made"
    assert llvm_cache._read(path, KEY) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs a system with rights of files")
def test_the_folder_and_its_files_are_the_users_alone(folder):
    before = os.umask(0)
    try:
        load_or_compile(KEY, lambda: CODE)
    finally:
        os.umask(before)
    assert (folder / PATH).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_usable_cache_everything_works(tmp_path, monkeypatch, compiled):
    """Switched off, a file instead of the folder, no home, a full disk."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for named in ("off", str(tmp_path / "file"), str(tmp_path / "file" / "below"), ""):
        monkeypatch.setenv("SAMARA_CACHE", named)
        assert cache_folder() is None
        assert logistic(3.7) == expected_orbit(3.7)
    assert len(compiled) == 4

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("SAMARA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(llvm_cache, "atomic_write", full)
    assert [logistic(3.7), logistic(3.7)] == [expected_orbit(3.7)] * 2
    assert len(compiled) == 6


def test_the_folder_is_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("SAMARA_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "samara"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored according to the XDG specification
    assert cache_folder() == tmp_path / "home" / ".cache" / "samara"
    monkeypatch.setenv("SAMARA_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_the_least_recently_used_file_is_deleted(folder, monkeypatch):
    """Space for three files of 1000 bytes: the first of them was used again, so the second is deleted."""
    monkeypatch.setattr(llvm_cache, "MAX_CACHE_BYTES", 3 * len(cache_file()) + 500)
    names = ["one", "two", "three", "four"]
    (folder / "notes.txt").write_bytes(bytes(5000))  # not a cache file: neither counted nor deleted
    for age, name in enumerate(names[:3]):
        load_or_compile(digest(name), lambda: CODE)
        os.utime(folder / f"{digest(name).hex()}.code", (1000.0 + age, 1000.0 + age))
    assert load_or_compile(digest("one"), lambda: b"never asked") == CODE
    load_or_compile(digest("four"), lambda: CODE)
    left = {path.name for path in folder.iterdir()}
    assert left == {f"{digest(name).hex()}.code" for name in ("one", "three", "four")} | {"notes.txt"}


def test_concurrent_writers_leave_one_intact_file(folder):
    contents = [np.random.default_rng(k).bytes(50_000) for k in range(4)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda k: load_or_compile(digest(str(k % 4)), lambda: contents[k % 4]), range(80)))
    assert all(code == contents[k % 4] for k, code in enumerate(results))
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{digest(str(k)).hex()}.code" for k in range(4))
