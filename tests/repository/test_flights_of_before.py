"""Every shipped scenario gives the recorded flight in every stream, bit for bit: commands, sensors, estimates, wind.

`support/recorded_flights.py` documents the stored data, and how to write it again.
"""

import numpy as np
import pytest
from support.recorded_flights import (
    FLIGHTS,
    SHORT_DURATION,
    arithmetic,
    digest,
    fly_reference,
    recording_path,
    stored_hashes,
    streams,
)

import samara


@pytest.mark.parametrize("flight", FLIGHTS)
def test_the_first_fifth_of_a_second_of_every_flight(flight):
    before, now = (
        streams(samara.load_run(recording_path(flight))),
        streams(fly_reference(flight, duration=SHORT_DURATION)),
    )
    assert set(before) <= set(now)
    same = stored_hashes()["arithmetic"] == arithmetic()
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
    if stored_hashes()["arithmetic"] != arithmetic():
        pytest.skip("the C library or the processor rounds differently from the one these flights were made on")
    now = streams(fly_reference(flight))
    assert {name: digest(now[name]) for name in stored_hashes()["flights"][flight] if name in now} == stored_hashes()[
        "flights"
    ][flight]
