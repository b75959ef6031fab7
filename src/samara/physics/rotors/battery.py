"""Batteries: open-circuit voltage, resistance, polarisation; several in parallel on one bus.

Positive current is discharge. A Thevenin battery is an open-circuit voltage OCV(SOC) behind R0 in series with R1 ∥ C1.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.ops import piecewise_linear, safe_sqrt
from samara.core.quantity import Current, Increasing, Quantity, Scalar, Voltage

StateOfCharge: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 1.0)]
Power: TypeAlias = Annotated[Scalar, Quantity("W", 0.0, 200.0)]
Resistance: TypeAlias = Annotated[Scalar, Quantity("ohm", 0.005, 0.2)]


class Ideal(NamedTuple):
    """A supply of constant voltage."""

    voltage: Annotated[Scalar, Quantity("V", 3.0, 50.0)]


class Thevenin(NamedTuple):
    """A battery. The table gives the open-circuit voltage of the pack over the state of charge."""

    capacity: Annotated[Scalar, Quantity("C", 500.0, 50000.0)]
    table_charge: Annotated[tuple[Scalar, ...], Increasing("1", 0.0, 1.0)]
    table_voltage: Annotated[tuple[Scalar, ...], Increasing("V", 9.0, 12.6)]
    resistance: Resistance
    polarisation_resistance: Resistance
    polarisation_capacitance: Annotated[Scalar, Quantity("F", 50.0, 5000.0)]


class BatteryState(NamedTuple):
    """State of charge (1 = full) and the voltage over R1 ∥ C1."""

    charge: StateOfCharge
    polarisation: Annotated[Scalar, Quantity("V", -1.0, 1.0)]


class VoltageSource(NamedTuple):
    """One or more batteries as a voltage behind a resistance."""

    voltage: Voltage
    resistance: Resistance


def open_circuit_voltage(charge: StateOfCharge, battery: Thevenin) -> Scalar:
    """OCV(SOC), piecewise linear in the table, constant beyond it  [V]"""
    return piecewise_linear(charge, battery.table_charge, battery.table_voltage)


def battery_source(battery_state: BatteryState, battery: Thevenin) -> VoltageSource:
    """V₀ = OCV(SOC) − V1, behind R0  [V, Ω]"""
    return VoltageSource(
        open_circuit_voltage(battery_state.charge, battery) - battery_state.polarisation, battery.resistance
    )


def parallel_sources(sources: tuple[VoltageSource, ...]) -> VoltageSource:
    """V₀ = Σ(Vₖ/Rₖ) / Σ(1/Rₖ),  R = 1 / Σ(1/Rₖ): several batteries on one bus  [V, Ω]"""
    conductance: Scalar = 0.0
    short_current: Scalar = 0.0
    for source in sources:
        conductance = conductance + 1.0 / source.resistance
        short_current = short_current + source.voltage / source.resistance
    return VoltageSource(short_current / conductance, 1.0 / conductance)


def voltage_under_power(source: VoltageSource, power: Power) -> Scalar:
    """V = ½ (V₀ + √(V₀² − 4 R P)), the larger root of V = V₀ − R P / V  [V]

    The maximum power of such a source is V₀²/4R; for a larger P the voltage stays at V₀/2, where the power is maximal.
    """
    return 0.5 * (source.voltage + safe_sqrt(source.voltage * source.voltage - 4.0 * source.resistance * power))


def branch_current(source: VoltageSource, bus_voltage: Voltage) -> Scalar:
    """Iₖ = (Vₖ − V) / Rₖ: batteries of equal voltage share in proportion to 1/R  [A]"""
    return (source.voltage - bus_voltage) / source.resistance


def battery_rate(battery_state: BatteryState, current: Current, battery: Thevenin) -> BatteryState:
    """dSOC/dt = −I / capacity,   V̇1 = I / C1 − V1 / (R1 C1)  [1/s, V/s]"""
    tau = battery.polarisation_resistance * battery.polarisation_capacitance
    return BatteryState(
        -current / battery.capacity, current / battery.polarisation_capacitance - battery_state.polarisation / tau
    )
