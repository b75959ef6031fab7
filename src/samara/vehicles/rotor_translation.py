"""Drag, thrust and moment of rotors that move through the air, for vehicles whose flights are not known.

    H = χ kF Ω u_e/R     τ = c T l/W u_e × a     ΔT(V_c, u_e) by blade elements and momentum theory

Thrust needs no flight: kF, kM and the solidity determine it. Drag and moment do. Rigid blades have a third of the drag that
aircraft show (`in_plane_force`, and blade element momentum theory with azimuth) and half of the moment; flapping, blades
that twist, arms in the wake and rotors in each other's wake have the rest. In units of the rotor, though, aircraft of very
different size agree. So χ and c are those of aircraft that flew, and their spread is the uncertainty:

    χ = m Xu R/(n kF Ω)  1.2 and 1.8 (Crazyflie 2: Foerster 2015, NanoBench), 2.3 (Crazyflie Brushless: drone-models);
                         not used: 1.7 (5-inch racer), 1.5 (3DR X8 of 3.5 kg, ArduPilot's identification)
    c                    0.09 to 0.20 on six aircraft of 29 g to 3.5 kg
"""

from samara.vehicles.parts.uncertain import UncertainValue

TRANSLATION_EFFECTS = ("rotor_drag", "airspeed_moment", "translational_lift")
FLOWN_DRAG = UncertainValue(1.7, 0.35, "geometric mean of three flown Crazyflies, 1.2 to 2.3")
FLOWN_MOMENT = UncertainValue(0.14, 0.3, "flights of six aircraft of 29 g to 3.5 kg show 0.09 to 0.20")
SOLIDITY_SPREAD = 0.25  # of blades of one diameter and number, from slender racing ones to slow flyers
LIFT_SLOPE = UncertainValue(5.7, 0.1, "thin aerofoils, 2π less what small blades lose")


def rotor_drag_coefficient(k_thrust: float, radius: float, ratio: float = FLOWN_DRAG.value) -> float:
    """k = χ kF/R  [N s²/(rad m)]"""
    return ratio * k_thrust / radius
