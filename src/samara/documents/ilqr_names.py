"""Names of the iLQR options in the iLQR document, and the names `samara.control.MPC` takes.

MPC(vehicle, **mpc_options(mpcHorizon=20, predictionDt=0.05, wPosition=30.0))
"""

MPC_NAMES = {
    "mpcHorizon": "horizon",
    "predictionDt": "dt",
    "maxIterations": "max_iterations",
    "wPosition": "position_weight",
    "wVelocity": "velocity_weight",
    "wTilt": "tilt_weight",
    "wYawRate": "yaw_rate_weight",
    "wThrust": "thrust_weight",
    "wTorque": "torque_weight",
    "wSmooth": "smoothing_weight",
    "wTerminalPosition": "terminal_position_weight",
    "wTerminalVelocity": "terminal_velocity_weight",
    "wTerminalTilt": "terminal_tilt_weight",
    "refVelocityGain": "reference_velocity_gain",
    "maxRefVelocity": "max_reference_velocity",
    "refAccelGain": "reference_acceleration_gain",
    "maxRefAcceleration": "max_reference_acceleration",
}
"""The document's name of an option: the name in `samara.control.mpc.MpcOptions`, `Weights` or `Shaping`."""


def mpc_options(**options: float) -> dict[str, float]:
    """Translate options from the document's names to those of `MPC`; raise TypeError for a name the document does not
    have."""
    unknown = [name for name in options if name not in MPC_NAMES]
    if unknown:
        raise TypeError(f"the iLQR document has no option {unknown[0]!r}; expected some of {', '.join(MPC_NAMES)}")
    return {MPC_NAMES[name]: value for name, value in options.items()}
