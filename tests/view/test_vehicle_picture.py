"""The picture of a vehicle: a legend names the colour of each rotation direction."""

from matplotlib.colors import to_rgb

import samara
from samara.vehicles.shape import CCW_COLOUR, CW_COLOUR
from samara.view.plot.vehicle import vehicle_picture


def test_the_legend_names_the_rotation_directions_of_the_rotors():
    """Both for a quadrotor; the colour of a direction is that of the discs of its rotors."""
    vehicle = samara.vehicle("iris")
    top_view, rear_view = vehicle_picture(vehicle).axes
    legend = rear_view.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["counter-clockwise", "clockwise"]
    assert legend.get_title().get_text() == "rotation, seen from above"
    assert [handle.get_color() for handle in legend.legend_handles] == [CCW_COLOUR, CW_COLOUR]
    discs = [patch for patch in top_view.patches if hasattr(patch, "get_radius") and not patch.get_fill()]
    for disc, rotor in zip(discs, vehicle.rotors, strict=True):
        assert disc.center == (-rotor.r_B.y, rotor.r_B.x)
        assert disc.get_edgecolor()[:3] == to_rgb(CCW_COLOUR if rotor.spin > 0 else CW_COLOUR)


def test_one_direction_has_one_entry_and_no_rotors_no_legend():
    tandem = samara.vehicle("iris")
    alike = tandem.replace(rotors=tuple(rotor._replace(spin=1.0) for rotor in tandem.rotors))
    (entry,) = vehicle_picture(alike).axes[1].get_legend().get_texts()
    assert entry.get_text() == "counter-clockwise"
    assert vehicle_picture(samara.vehicle("rigid_body_quadrotor")).axes[1].get_legend() is None


def test_from_behind_the_rear_rotors_hide_those_in_front():
    """A quadrotor in X shows a rear rotor on each side: one of each direction of rotation."""
    figure = vehicle_picture(samara.vehicle("iris"))
    discs = [
        line for line in figure.axes[1].lines if line.get_linewidth() == 3.0
    ]  # in the order in which they are drawn
    assert len(discs) == 4 and {line.get_color() for line in discs[2:]} == {CCW_COLOUR, CW_COLOUR}
