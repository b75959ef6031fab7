"""The rotors of a quadrotor by the corners they are at: what a policy that flies any quadrotor counts on."""

from samara.physics.types import Vehicle

CORNERS = {"front right": (1, -1), "back right": (-1, -1), "back left": (-1, 1), "front left": (1, 1)}  # signs of x, y
SPINS = (1, -1, 1, -1)


def rotor_order(vehicle: Vehicle, who: str = "raptor") -> tuple[int, ...]:
    """The vehicle's rotors front right, back right, back left, front left; ValueError where it has not these, or they turn
    the other way, and `who` needs them"""
    if len(vehicle.rotors) != 4 or vehicle.servos:
        raise ValueError(f"{who} flies quadrotors; vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors")
    found = []
    for (corner, (ahead, left)), spin in zip(CORNERS.items(), SPINS, strict=True):
        here = [k for k, own in enumerate(vehicle.rotors) if ahead * own.r_B.x > 0.0 and left * own.r_B.y > 0.0]
        if len(here) != 1:
            raise ValueError(f"{who} flies quadrotors in X; vehicle {vehicle.name!r} has {len(here)} rotors {corner}")
        if vehicle.rotors[here[0]].spin != spin:
            way = "counter-clockwise" if spin > 0 else "clockwise"
            raise ValueError(f"{who} wants the rotor {corner} to turn {way}; that of vehicle {vehicle.name!r} does not")
        found.append(here[0])
    return tuple(found)
