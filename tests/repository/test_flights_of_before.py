"""Every shipped scenario gives the flight it gave before, in every stream, bit for bit: commands, sensors, estimates, wind.

`support/recorded_flights.py` says what is kept of them, and how it is written anew.
"""

import numpy as np
import pytest
from support.recorded_flights import FLIGHTS, SHORT, arithmetic, digest, flown, kept, recording, streams

import samara


@pytest.mark.parametrize("flight", FLIGHTS)
def test_the_first_fifth_of_a_second_of_every_flight(flight):
    before, now = streams(samara.load_run(recording(flight))), streams(flown(flight, duration=SHORT))
    assert set(before) <= set(now)
    same = kept()["arithmetic"] == arithmetic()
    for name, table in before.items():
        assert (now[name].fields, now[name].units) == (table.fields, table.units), name
        np.testing.assert_array_equal(now[name].times_us, table.times_us, err_msg=name)
        if same:
            np.testing.assert_array_equal(now[name].rows, table.rows, err_msg=name)
        else:
            np.testing.assert_allclose(now[name].rows, table.rows, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("flight", FLIGHTS)
def test_every_stream_of_every_whole_flight(flight):
    if kept()["arithmetic"] != arithmetic():
        pytest.skip("the C library or the processor rounds differently from the one these flights were made on")
    now = streams(flown(flight))
    assert {name: digest(now[name]) for name in kept()["flights"][flight] if name in now} == kept()["flights"][flight]
