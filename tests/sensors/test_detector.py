"""The gate detector: its chains have the rate and correlation of a two-state Markov process, which a fit recovers."""

import math

import numpy as np
import pytest

from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.identify import DetectionLog, fit_detector
from samara.sensors.depth_camera import pinhole
from samara.sensors.detector import (
    CORNER_NORMALS,
    PERFECT_DETECTOR,
    TRACK_NORMALS,
    DetectorPart,
    GateTrack,
    advance_chain,
    advance_track,
    detect_corners,
    detect_label,
    initial_track,
)

CAMERA = pinhole(64, 48, 1.5, 1.2)
DETECTOR = DetectorPart(0.2, 0.15, 0.08, 0.06, 0.4, 0.15, 0.02)
DT = 1.0 / 30.0
GATES, FRAMES = 400, 600


@pytest.fixture(scope="module")
def tracks():
    """Missed and false, (frames, gates): 20 s of 400 gates."""
    draws = np.random.default_rng(1).standard_normal((FRAMES, TRACK_NORMALS, GATES))
    track, rows = initial_track(list(draws[0]), DETECTOR, CAMERA), []
    for frame in draws:
        rows.append((np.array(track.missed), np.array(track.false)))
        track = advance_track(track, list(frame), DETECTOR, CAMERA, DT)
    return np.array(rows).transpose(1, 0, 2)


@pytest.mark.parametrize("chain, rate, time", [(0, DETECTOR.miss_rate, DETECTOR.miss_time), (1, 0.08, 0.06)])
def test_chains_have_the_stationary_rate_and_the_correlation_of_a_markov_process(tracks, chain, rate, time):
    """E s = p, and the correlation over k frames is exp(−k dt/T); the mean length of a run is 1/((1 − p)(1 − a)) frames."""
    s, a = tracks[chain], math.exp(-DT / time)
    standard_error = math.sqrt(rate * (1.0 - rate) * (1.0 + a) / (1.0 - a) / s.size)
    assert abs(s.mean() - rate) < 4.0 * standard_error
    assert abs(s[0].mean() - rate) < 4.0 * math.sqrt(rate * (1.0 - rate) / GATES)  # from the first frame on
    centred = s - rate
    for lag in (1, 2, 5):
        measured = (centred[:-lag] * centred[lag:]).mean() / (rate * (1.0 - rate))
        assert abs(measured - a**lag) < 0.02
    starts = ((s[1:] == 1) & (s[:-1] == 0)).sum()
    assert abs(s[1:].sum() / starts - 1.0 / ((1.0 - rate) * (1.0 - a))) < 0.03 / ((1.0 - rate) * (1.0 - a))


def test_the_chain_is_the_same_process_at_every_frame_rate():
    """Two steps of dt/2 have the transition probabilities of one of dt (Chapman–Kolmogorov)."""

    def transition(state, dt, count=400_001):
        quantiles = np.array([_normal_quantile((k + 0.5) / count) for k in range(0, count, 40)])
        return float(np.mean(advance_chain(state, quantiles, 0.3, 0.2, dt)))

    start, stay = transition(0.0, 0.05), transition(1.0, 0.05)
    twice = {0.0: (1.0 - start) * start + start * stay, 1.0: (1.0 - stay) * start + stay * stay}
    for state, probability in twice.items():
        assert abs(transition(state, 0.1) - probability) < 2e-4


def _normal_quantile(probability):
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def test_extreme_rates_never_and_always_miss():
    draws = np.linspace(-9.0, 9.0, 99)
    for active in (0.0, 1.0):
        assert not np.any(advance_chain(active, draws, 0.0, 0.0, DT))
        assert np.all(advance_chain(active, draws, 1.0, 0.0, DT))


CORNERS = ((20.0, 10.0, 1.0), (40.0, 10.0, 1.0), (40.0, 30.0, 1.0), (20.0, 30.0, 1.0))
NO_CORNERS = ((0.0, 0.0, 0.0),) * 4
NO_NOISE = (0.0,) * CORNER_NORMALS


def test_corner_noise_grows_with_the_distance():
    """σ = σ₀ + σ₁ s of every coordinate."""
    draws = np.random.default_rng(2).standard_normal((CORNER_NORMALS, 100_000))
    for distance in (1.0, 12.0):
        corners = np.array(
            [
                np.broadcast_arrays(*corner, draws[0])[:3]
                for corner in detect_corners(CORNERS, distance, GateTrack(), list(draws), DETECTOR)
            ]
        )
        sigma = DETECTOR.corner_noise + DETECTOR.corner_noise_growth * distance
        deviations = np.std(corners[:, :2], axis=2)
        assert np.all(corners[:, 2] == 1.0) and np.all(np.abs(deviations / sigma - 1.0) < 4.0 / math.sqrt(2e5))


def test_what_is_reported():
    """The true corners if found, those of the false gate if that is imagined, else nothing."""
    false = GateTrack(1.0, 1.0, 30.0, 20.0, 5.0)

    def detect(corners, track, detector=DETECTOR):
        return detect_corners(corners, 3.0, track, NO_NOISE, detector)

    assert detect(CORNERS, GateTrack(), PERFECT_DETECTOR) == CORNERS
    assert detect(CORNERS, GateTrack(missed=1.0)) == NO_CORNERS
    assert detect(NO_CORNERS, GateTrack()) == NO_CORNERS
    wrong = ((25.0, 15.0, 1.0), (35.0, 15.0, 1.0), (35.0, 25.0, 1.0), (25.0, 25.0, 1.0))
    assert detect(CORNERS, false) == detect(NO_CORNERS, false._replace(missed=0.0)) == wrong
    assert detect(CORNERS, false._replace(missed=0.0)) == CORNERS
    half = (*CORNERS[:2], *NO_CORNERS[2:])
    assert detect(half, GateTrack()) == half and detect(half, false) == wrong


def test_a_segmentation_loses_missed_gates_and_gains_the_frames_of_false_ones():
    row, column = (index.astype(float) for index in np.indices((48, 64)))
    gate = np.where(column < 32, 0.0, -1.0)
    label = np.where(gate >= 0, 1.0, 3.0)

    def image(*tracks, in_view):
        return detect_label(label, gate, column, row, tracks, in_view, 0.0, 1.0)

    assert np.array_equal(image(GateTrack(), in_view=(1.0,)), label)
    missed = image(GateTrack(missed=1.0), in_view=(1.0,))
    assert np.all(missed[:, :32] == 0.0) and np.all(missed[:, 32:] == 3.0)
    imagined = image(GateTrack(), GateTrack(0.0, 1.0, 47.0, 20.0, 5.0), in_view=(1.0, 0.0))
    offset = np.maximum(np.abs(column - 47.0), np.abs(row - 20.0))
    assert np.array_equal(imagined != label, (offset == 4.0) | (offset == 5.0))
    found = image(GateTrack(), GateTrack(0.0, 1.0, 47.0, 20.0, 5.0), in_view=(1.0, 1.0))  # a gate is seen where it is
    assert np.array_equal(found, label)


def test_false_gates_stay_in_place_and_in_the_image():
    track, places = initial_track(np.zeros(TRACK_NORMALS).tolist(), DETECTOR, CAMERA), []
    for frame in range(3000):
        draws = normals(3, "detector", 0, frame, TRACK_NORMALS).tolist()
        before, track = track, advance_track(track, draws, DETECTOR, CAMERA, DT)
        if before.false and track.false:
            assert track[2:] == before[2:]
        places.append(track[2:])
    columns, rows, sizes = np.array(places).T
    assert columns.min() >= -0.5 and columns.max() <= 63.5 and rows.min() >= -0.5 and rows.max() <= 47.5
    assert np.all(sizes > 0.0) and np.std(columns) > 5.0


def test_detection_compiles_to_the_same_bits():
    """Python, and compiled code in the lanes of a batch."""
    from samara.compiler.compiled_step import CompiledStep

    def body(carry, inputs):
        draws, noise = inputs
        return advance_track(carry, draws, DETECTOR, CAMERA, DT), detect_corners(CORNERS, 4.0, carry, noise, DETECTOR)

    outputs = body(GateTrack(), ((0.0,) * TRACK_NORMALS, (0.0,) * CORNER_NORMALS))

    def stage(carry, inputs):
        return body(carry[0], inputs)

    template = ((0.0,) * TRACK_NORMALS, (0.0,) * CORNER_NORMALS)
    machine = CompiledStep(stage, outputs, template).machine(7)
    draws = np.random.default_rng(5).standard_normal((50, TRACK_NORMALS + CORNER_NORMALS, 7))
    machine.carry[:] = 0.0
    tracks = [GateTrack() for _ in range(7)]
    for frame in draws:
        machine.held_inputs[:] = frame
        machine.run()
        for lane in range(7):
            result = body(tracks[lane], unflatten(template, iter(frame[:, lane].tolist())))
            tracks[lane] = result[0]
            assert [float(x) for x in flatten(result)] == machine.carry[:, lane].tolist()


# The fit ---


def synthetic_log(seed, gates=6, frames=500, detector=DETECTOR):
    """A log of a detector with views that are interrupted; written without the model's own functions."""
    rng, rows = np.random.default_rng(seed), []
    time = np.cumsum(rng.choice([DT, DT, DT, 2 * DT], size=frames))  # some frames are lost

    def chain(rate, time_constant):
        state = [rng.random() < rate]
        for gap in np.diff(time):
            keep = math.exp(-gap / time_constant)
            state.append(state[-1] if rng.random() < keep else rng.random() < rate)  # resampled, or as before
        return np.array(state)

    for gate in range(gates):
        missed, imagined = (
            chain(detector.miss_rate, detector.miss_time),
            chain(detector.false_rate, detector.false_time),
        )
        visible = np.sin(time * 0.9 + gate) > -0.2
        found = visible & ~missed
        distance = 8.0 + 6.0 * np.sin(0.5 * time + gate)
        sigma = (detector.corner_noise + detector.corner_noise_growth * distance)[:, None]
        error = np.where(found[:, None], sigma * rng.standard_normal((frames, 8)), np.nan)
        delay = detector.delay + 0.002 * rng.standard_normal(frames)
        rows.append((np.full(frames, gate), time, visible, found, imagined & ~found, distance, error, delay))
    return DetectionLog(*(np.concatenate(column) for column in zip(*rows, strict=True)))


@pytest.mark.long
def test_intervals_cover_the_true_parameters():
    """Of 80 logs, 95 % of the intervals contain the truth, within four standard errors of that fraction."""
    logs = 80
    fits = [fit_detector(synthetic_log(seed)) for seed in range(logs)]
    for name, truth in DETECTOR._asdict().items():
        inside = sum(fit.intervals[name][0] <= truth <= fit.intervals[name][1] for fit in fits) / logs
        assert abs(inside - 0.95) < 4.0 * math.sqrt(0.95 * 0.05 / logs), name


def test_a_fit_recovers_the_parameters():
    fit = fit_detector(synthetic_log(11, gates=12, frames=1500))
    for name, truth in DETECTOR._asdict().items():
        low, high = fit.intervals[name]
        value = getattr(fit.part, name)
        assert low < value < high and abs(value - truth) < 1.2 * (high - low), name
        assert high - low < 0.6 * truth, name


def test_the_fit_of_a_regular_log_is_the_closed_form():
    """From transition counts: p = q₀₁/(q₀₁ + q₁₀), a = 1 − q₀₁ − q₁₀, up to the weight of the first frame."""
    rng, frames = np.random.default_rng(3), 4000
    missed = [False]
    for _ in range(frames - 1):
        missed.append(rng.random() < (0.85 if missed[-1] else 0.03))
    missed = np.array(missed)
    zeros = np.zeros(frames)
    fit = fit_detector(
        DetectionLog(
            zeros,
            DT * np.arange(frames),
            zeros == 0,
            ~missed,
            zeros > 0,
            zeros + 5.0,
            rng.normal(size=(frames, 8)),
            zeros,
        )
    )
    q01 = np.mean(missed[1:][~missed[:-1]])
    q10 = 1.0 - np.mean(missed[1:][missed[:-1]])
    assert fit.part.miss_rate == pytest.approx(q01 / (q01 + q10), rel=3e-3)
    assert fit.part.miss_time == pytest.approx(-DT / math.log(1.0 - q01 - q10), rel=3e-3)
    assert fit.part.false_rate == 0.0 and fit.intervals["false_rate"][1] == pytest.approx(3.0 / missed.sum())
    assert fit.part.delay == 0.0


@pytest.mark.parametrize("noise", [(0.6, 0.0), (0.0, 0.2)])
def test_noise_that_only_grows_or_never_does(noise):
    """At the limit of one parameter the other is √(mean square), of the error or of the error over the distance."""
    for seed in range(12):
        log = synthetic_log(
            seed, gates=2, detector=DETECTOR._replace(corner_noise=noise[0], corner_noise_growth=noise[1])
        )
        part, intervals = fit_detector(log)
        for truth, name in zip(noise, ("corner_noise", "corner_noise_growth"), strict=True):
            assert intervals[name][0] <= getattr(part, name) <= intervals[name][1] < truth + 0.2
        scale = log.distance[log.found, None] if noise[0] == 0.0 else 1.0
        value = part.corner_noise_growth if noise[0] == 0.0 else part.corner_noise
        if min(part.corner_noise, part.corner_noise_growth) == 0.0:
            assert value == pytest.approx(np.sqrt(np.mean((log.error[log.found] / scale) ** 2)), rel=1e-9)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"time": np.zeros(3000)}, "log.time: two rows of a gate have the same time; expected one row per frame"),
        ({"distance": np.zeros(2)}, r"log.distance has the shape \(2,\); expected \(3000,\)"),
        ({"found": np.zeros(3000)}, "log.found: no detection; expected at least one"),
        (
            {"found": np.ones(3000)},
            "log.found: a gate was found that is not visible; expected such a detection in `false`",
        ),
        ({"error": np.full((3000, 8), np.nan)}, "log.error: a value of a detection is not finite; expected numbers"),
    ],
)
def test_a_bad_log_is_refused_in_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        fit_detector(synthetic_log(0)._replace(**change))
