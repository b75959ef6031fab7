"""A plain participant of DDS, with types of its own: nothing here is Samara's. Imported by other processes alone, whose
arguments are the number of the domain and the configuration of Cyclone DDS."""

import sys
from dataclasses import dataclass
from typing import Any

from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, float64, int32, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic


@dataclass
class Time(IdlStruct, typename="builtin_interfaces::msg::dds_::Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Clock(IdlStruct, typename="rosgraph_msgs::msg::dds_::Clock_"):
    clock: Time


@dataclass
class Header(IdlStruct, typename="std_msgs::msg::dds_::Header_"):
    stamp: Time
    frame_id: str


@dataclass
class Text(IdlStruct, typename="std_msgs::msg::dds_::String_"):
    data: str


@dataclass
class Vector3(IdlStruct, typename="geometry_msgs::msg::dds_::Vector3_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs::msg::dds_::Quaternion_"):
    x: float64
    y: float64
    z: float64
    w: float64


@dataclass
class Twist(IdlStruct, typename="geometry_msgs::msg::dds_::Twist_"):
    linear: Vector3
    angular: Vector3


@dataclass
class TwistStamped(IdlStruct, typename="geometry_msgs::msg::dds_::TwistStamped_"):
    header: Header
    twist: Twist


@dataclass
class Imu(IdlStruct, typename="sensor_msgs::msg::dds_::Imu_"):
    header: Header
    orientation: Quaternion
    orientation_covariance: array[float64, 9]
    angular_velocity: Vector3
    angular_velocity_covariance: array[float64, 9]
    linear_acceleration: Vector3
    linear_acceleration_covariance: array[float64, 9]


DOMAIN = Domain(int(sys.argv[1]), sys.argv[2])  # as long as this is held
PARTICIPANT = DomainParticipant(int(sys.argv[1]))
QUALITY = Qos(Policy.Reliability.Reliable(10**9), Policy.History.KeepLast(10))


def reader(name: str, kind: Any) -> DataReader:
    return DataReader(PARTICIPANT, Topic(PARTICIPANT, name, kind, qos=QUALITY), qos=QUALITY)


def writer(name: str, kind: Any) -> DataWriter:
    return DataWriter(PARTICIPANT, Topic(PARTICIPANT, name, kind, qos=QUALITY), qos=QUALITY)
