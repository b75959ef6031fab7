"""APC's performance files: a block for each rpm, read by the names above the columns."""

import pytest

from samara.vehicles.parts.propeller import propeller
from samara.vehicles.parts.propeller_tables import read_apc

# written by hand in the layout of PER3 files; the numbers are those of no propeller
FILE = """\
         10x4.5  (test)                            1 Jan 2020

         PROP RPM =        2000

          V          J           Pe         Ct         Cp        PWR        Torque
        (mph)     (Adv_Ratio)     -          -          -        (Hp)       (In-Lbf)
         0.0        0.0000      0.0000     0.1000     0.0400      0.003      0.100
         2.0        0.1500      0.3000     0.0900     0.0410      0.003      0.100
         8.0        0.6000      0.5000     0.0050     0.0200      0.003      0.100
         9.0        0.7000     -0.1000    -0.0100     0.0100      0.003      0.100

         PROP RPM =        6000

          V          J           Pe         Ct         Cp        PWR        Torque
        (mph)     (Adv_Ratio)     -          -          -        (Hp)       (In-Lbf)
         0.0        0.0000      0.0000     0.1100     0.0410      0.083      0.900
         6.0        0.1500      0.3100     0.0950     0.0420      0.083      0.900
        24.0        0.6000      -NaN       -NaN       -NaN       -NaN       -NaN
"""


def test_every_block_is_read(tmp_path):
    """rpm, J, Ct and Cp; a row without numbers is left out"""
    path = tmp_path / "PER3_10x45.dat"
    path.write_text(FILE)
    slow, fast = read_apc(path)
    assert (slow.rpm, fast.rpm) == (2000.0, 6000.0)
    assert slow.ct == (0.1, 0.09, 0.005, -0.01)
    assert fast.advance == (0.0, 0.15)
    assert fast.cp == (0.041, 0.042)


def test_a_file_takes_the_place_of_the_theory(tmp_path):
    """The block nearest in rpm, up to where the thrust ends, with a narrower error bar"""
    path = tmp_path / "PER3_10x45.dat"
    path.write_text(FILE)
    estimate = propeller("10x4.5", rpm=2500.0, apc_file=path)
    assert estimate.ct.values == (0.1, 0.09, 0.005)
    assert estimate.ct.advance == (0.0, 0.15, 0.6)
    assert estimate.k_thrust.spread < propeller("10x4.5").k_thrust.spread
    assert "2000 rpm" in estimate.k_thrust.source


@pytest.mark.parametrize(
    "text", ["", "hello", "PROP RPM = 2000\n", FILE.replace("J  ", "Q  "), FILE.replace("0.1500", "0.0000")]
)
def test_another_file_is_refused_in_one_sentence(tmp_path, text):
    """The message has the file's name and the expectation."""
    path = tmp_path / "notes.dat"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"notes\.dat: .*expected") as caught:
        read_apc(path)
    assert "\n" not in str(caught.value)
