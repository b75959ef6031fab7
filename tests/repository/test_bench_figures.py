"""Figures on the pages are those of bench/results, and every file there says what it is."""

import json
import re

import pytest
from support.repository import REPOSITORY
from tools.bench_figures import MARKED, RESULTS, figure, format_number, load_results, pages, rewrite, unmarked_figures

NOT_OF_BENCH = {
    ("README.md", r"11\.9 M|914 M"): "Crazyflow's own figures, with their source",
    (
        "docs/evidence/policy-cards.md",
        r"[\d.,]+ (ms|s|minutes)",
    ): "trainings, with machine and settings",
    ("docs/evidence/crazyflie-firmware.md", r"2\.5 times faster"): "a step response in flight",
    ("docs/explanation/control.md", r"3 /s"): "a growth rate of an oscillation",
}
"""Figures that look like a benchmark and are none of bench/results, by page, with the reason."""


def test_every_marked_figure_is_the_measured_one():
    """A KEY that does not exist, or another figure than the stored one, fails; `make gallery` rewrites them."""
    results = load_results()
    wrong, count = [], 0
    for page in pages():
        for match in MARKED.finditer(page.read_text(encoding="utf-8")):
            count += 1
            measured = figure(match["key"], results)
            if match["shown"] != measured:
                wrong.append(
                    f"{page.relative_to(REPOSITORY)}: {match['key']}: shows {match['shown']}, measured {measured}"
                )
    assert wrong == []
    assert count >= 20


def test_every_marker_is_closed():
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert text.count("<!-- bench:") == text.count("<!-- /bench -->") == len(MARKED.findall(text)), page


def test_no_figure_is_typed_by_hand():
    """A speed or a training time on a page is marked, or listed above with the reason."""
    unlisted, used = [], set()
    for page in pages():
        name, text = page.relative_to(REPOSITORY).as_posix(), page.read_text(encoding="utf-8")
        for line, shown in unmarked_figures(text):
            entries = [entry for entry in NOT_OF_BENCH if entry[0] == name and re.fullmatch(entry[1], shown)]
            used.update(entries)
            if not entries:
                unlisted.append(f"{name}:{line}: {shown}: mark it <!-- bench: … -->, or list it with a reason")
    assert unlisted == []
    assert used == set(NOT_OF_BENCH), "an entry of the list matches nothing: delete it"


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("It makes 9.4 M steps/s.", ["9.4 M steps/s"]),
        ("17.8 million pictures a second", ["17.8 million pictures a second"]),
        ("| 120 000 /s | 2.0 M |", ["000 /s", "2.0 M"]),
        ("up to twice as fast, 11 to 17 times as fast", ["twice as fast", "11 to 17 times as fast"]),
        ("`hover` trains in 0.09 s on an H200", ["0.09 s"]),
        ("a drone flies for 0.1 s at 5 m/s; `--speed 2`, twice as fast as the clock; a gain of 3 1/s", []),
        ("<!-- bench: cpu:peers:crazyflow_1:0 k -->202 k<!-- /bench --> steps/s", []),
        ("```\nsamara train hover   # 3 s\n```", []),
    ],
)
def test_what_looks_like_a_measured_figure(text, figures):
    assert [shown for _, shown in unmarked_figures(text)] == figures


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_results_file_has_name_machine_and_date(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["name"] and document["machine"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", document["date"])


def test_figures_are_rewritten_and_bad_keys_are_refused():
    results = {"cpu": {"a, b": {"steps_per_s": 9363856.9, "us": 84.3}, ".": {"machine": "a Xeon"}}}
    page = (
        "<!-- bench: cpu:a, b:steps_per_s:0.0 M -->1 M<!-- /bench --> on <!-- bench: cpu:.:machine -->?<!-- /bench -->"
    )
    assert rewrite(page, results) == (
        "<!-- bench: cpu:a, b:steps_per_s:0.0 M -->9.4 M<!-- /bench --> on <!-- bench: cpu:.:machine -->a Xeon<!-- /bench -->"
    )
    for key, expected in (
        ("cpu:a, b:steps_per_s", "expected a format"),
        ("cpu:a, b:speed:0 M", "'speed': expected one of steps_per_s, us"),
        ("cpu:c:us:0", "'c': expected one of"),
        ("gpu:a, b:us:0", "'gpu': expected one of cpu"),
        ("cpu:a, b:us:1 d", "format '1 d': expected"),
        ("cpu", "expected file:row:field:format"),
    ):
        with pytest.raises(ValueError, match=expected):
            figure(key, results)


@pytest.mark.parametrize(
    ("value", "field", "pattern", "shown"),
    [
        (9363856.9, "steps_per_s", "0.0 M", "9.4 M"),
        (728586.8, "flights_per_second", "0,000~3", "729,000"),
        (50166818296.0, "steps_per_second", "0.0 G", "50.2 G"),
        (84.3, "us", "0 µs", "84 µs"),
        (0.0935, "seconds", "0.00 s", "0.09 s"),
        (18.3, "ns", "0 ns", "18 ns"),
        (2.667, "us_per_step", "0.0 µs", "2.7 µs"),
        (105.1, "ratio", "0×", "105×"),
        (0.6118, "fraction", "0 %", "61 %"),
        (18.16, "recording_costs_percent", "0 %", "18 %"),
    ],
)
def test_formats(value, field, pattern, shown):
    assert format_number(value, field, pattern) == shown
