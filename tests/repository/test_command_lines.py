"""Every command line in README and docs can be typed, and does what the page says: each is run, or listed as not testable."""

import re

import pytest
from support.command_lines import (
    NOT_RUN,
    PAGES,
    command_lines,
    inline_commands,
    missing_lines,
    page_steps,
    parse_samara,
    problem_of,
    reason_not_run,
    run_page,
    unknown_words,
)
from support.repository import REPOSITORY, skip_or_fail

import samara

QUICK = {"README.md", "docs/tutorials/first-flight.md"}


def page_name(page):
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_of_a_page_exists(page):
    problems = [f"{command}: {problem}" for command in command_lines(page) if (problem := problem_of(command.text))]
    problems += [
        f"{command}: no {words[0]}" for command in inline_commands(page) if (words := unknown_words(command.text))
    ]
    assert problems == []


def pages_to_run():
    """Pages with commands that run; all but the quick ones are long."""
    for page in PAGES:
        if any(reason_not_run(command.text) is None for command in command_lines(page)):
            name = page_name(page)
            yield pytest.param(page, id=name, marks=[] if name in QUICK else [pytest.mark.long])


@pytest.mark.parametrize("page", pages_to_run())
def test_the_commands_of_a_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    """In an empty folder that has the files the page prints; each command exits with status 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("COLUMNS", "120")
    try:
        run_page(page, tmp_path, lambda: capsys.readouterr().out)
    except AssertionError as error:
        message = capsys.readouterr().err
        if "pip install" in message:  # an extra that is not there
            skip_or_fail(message)
        raise AssertionError(f"{error}\n{message}") from None


def test_a_command_that_fails_is_noticed(tmp_path, monkeypatch):
    """The check can fail: a file that the page does not have, and one that is wrong."""
    monkeypatch.chdir(tmp_path)
    page, command = tmp_path / "page.md", "samara check mine.toml"
    for files in ("", '```toml title="mine.toml"\nname = 1\n```\n\n'):
        page.write_text(f"{files}    {command}\n", encoding="utf-8")
        assert page_steps(page)[-1].text == command
        with pytest.raises(AssertionError, match=f"{command}: exit status [12]"):
            run_page(page, tmp_path, str)
    page.write_text("    samara --version\n\n```text\n0.0.0\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"not printed: 0\.0\.0"):
        run_page(page, tmp_path, lambda: f"{samara.__version__}\n")
    assert missing_lines("a  1 …\n…\n b", "a 1 s\nb") == [] and missing_lines("a …", "b 1") == ["a …"]


def test_every_exception_is_needed():
    """A pattern of NOT_RUN that matches no command of a page is removed."""
    texts = [command.text for page in PAGES for command in command_lines(page)]
    assert [pattern for pattern, _ in NOT_RUN if not any(re.fullmatch(pattern, text) for text in texts)] == []


def test_commands_are_found_and_mistakes_are_refused():
    """The check can fail: unknown commands, options, values, targets and extras are found."""
    found = [command.text for page in PAGES for command in command_lines(page)]
    assert len(found) > 50 and any(text.startswith("samara fly") for text in found)
    for words in (
        ["flyy"],
        ["fly", "--wings", "2"],
        ["race", "--flights", "many"],
        ["vehicle", "paint"],
        ["diff", "a.mcap"],
    ):
        assert parse_samara(words) is not None, words
    for text in (
        "make coffee",
        "pip install 'samara-flight[wings]'",
        "pip install samara",
        "samara fly 'a",
        "python examples/0.py",
    ):
        assert problem_of(text) is not None, text
    assert (unknown_words("samara fly SCENARIO --wings"), unknown_words("samara wings")) == (["--wings"], ["wings"])
