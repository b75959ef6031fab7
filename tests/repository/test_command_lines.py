"""Every command line in README and docs can be typed: the command, its options and their types exist."""

import pytest
from support.command_lines import PAGES, command_lines, inline_commands, parse_samara, problem_of, unknown_words
from support.repository import REPOSITORY


def page_name(page):
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_of_a_page_exists(page):
    problems = [f"{command}: {problem}" for command in command_lines(page) if (problem := problem_of(command.text))]
    problems += [
        f"{command}: no {words[0]}" for command in inline_commands(page) if (words := unknown_words(command.text))
    ]
    assert problems == []


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
