"""What the drag of the rotors does to the body, as controllers know it: in still air, at the rotor speeds there are."""

from samara.core.algebra import ZERO, Vec3, cross
from samara.physics.effect import Wrench
from samara.physics.multirotor import tilted
from samara.physics.types import CALM, State, Vehicle


def rotor_drag_wrench(v_W: Vec3, state: State, vehicle: Vehicle) -> Wrench:
    """Σ f, Σ r × f at a velocity, of a body that does not turn  [N, N·m]

    Thrust that is lost in a climb is drag along the rotors' axes, as they are tilted: flying sideways, a tricopter's tail
    climbs or descends, and pitches the body. Nothing of a vehicle without such an effect.
    """
    if not vehicle.has("rotor_drag"):
        return Wrench()
    vehicle = tilted(state, vehicle)
    effect, there = vehicle.structure.effects[vehicle.index("rotor_drag")], state._replace(v_W=v_W, omega_B=ZERO)
    across = effect.wrench((), there, (), vehicle, CALM)
    f_B, tau_B = across.f_B, across.tau_B
    losses = effect.more_loads((), there, vehicle, CALM) if effect.more_loads else ()
    for rotor, loss in zip(vehicle.rotors, losses, strict=False):
        f_B = f_B + rotor.axis_B * loss.thrust
        tau_B = tau_B + cross(rotor.r_B, rotor.axis_B * loss.thrust)
    return Wrench(f_B, tau_B)
