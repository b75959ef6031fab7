"""A DDS participant that ROS 2 lists as a node: it publishes messages that are bytes already, and subscribes to others."""

from collections.abc import Iterable
from types import SimpleNamespace, TracebackType
from typing import Any
from weakref import WeakSet

from samara.core.sanitise import shown
from samara.link.ros2.dds import (
    ENCLAVE,
    configuration,
    confine,
    cyclonedds,
    endpoint_user_data,
    idl_type,
    open_to_all,
    require_domain,
    require_node_name,
    silence_warnings,
    wire_topic,
    wire_type,
)
from samara.record.ros2.messages import CdrError, layout_of, parsed

DEPTH = 10  # messages that are kept for a reader that is slow
ENDPOINTS = 100  # of other participants, looked at in one go
GRAPH_TOPIC, GRAPH_TYPE = "ros_discovery_info", "rmw_dds_common/ParticipantEntitiesInfo"


class Node:
    """On loopback and in domain 0 by default. A process can have only one node per domain at a time.

    `is_confined` where its sockets hear nothing but loopback: not with an interface, nor where the system has no way to.
    `announce` publishes the node's `name` and endpoints to ROS 2's graph; with an empty name it publishes nothing.
    """

    def __init__(self, domain: int = 0, interface: str = "", *, name: str = "samara") -> None:
        """MissingExtraError without Cyclone DDS; ValueError for a domain, an interface or a name that cannot be"""
        domains, settings, qos = cyclonedds("domain"), configuration(interface), cyclonedds("qos")
        self.name = require_node_name(name)
        silence_warnings()
        self._kinds: dict[str, str] = {}  # by the topic's name on the wire
        before = open_to_all()
        try:
            self._domain = domains.Domain(require_domain(domain), settings)
            self._participant = domains.DomainParticipant(domain, qos=qos.Qos(qos.Policy.Userdata(ENCLAVE)))
        except cyclonedds("core").DDSException as error:
            where = f"interface {interface!r}" if interface else "loopback"
            raise ValueError(
                f"ROS 2 on {where}, domain {domain}, cannot be opened; expected an interface that is up, and a domain "
                "that no other node of this process is in"
            ) from error
        self.is_confined = not interface and confine(open_to_all() - before)
        builtin = cyclonedds("builtin")
        kinds = builtin.BuiltinTopicDcpsPublication, builtin.BuiltinTopicDcpsSubscription
        self._endpoints = [builtin.BuiltinDataReader(self._participant, own) for own in kinds]
        self.gid = _gid(self._participant)
        self._graph = Speaker(self._participant, GRAPH_TOPIC, GRAPH_TYPE, latched=True) if name else None
        self._speakers: WeakSet[Speaker] = WeakSet()
        self._listeners: WeakSet[Listener] = WeakSet()
        self._is_announced = False

    def __enter__(self) -> "Node":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Goes from the network; whoever listened is told"""
        self._participant.__del__()  # with all that was made by it, which may be held elsewhere still
        self._domain.__del__()

    def speaker(self, topic: str, kind: str, *, latched: bool = False) -> "Speaker":
        """What says messages of a type under a topic '/drone/imu'"""
        self._kinds[wire_topic(topic)] = kind
        speaker = Speaker(self._participant, wire_topic(topic), kind, latched=latched)
        self._speakers.add(speaker)
        self._is_announced = False
        return speaker

    def listener(self, topic: str, kind: str, *, depth: int = DEPTH, reliable: bool = True) -> "Listener":
        """What hears messages of a type under a topic, the last `depth` of them; one that is not `reliable` may miss some,
        and hears publishers that are not either"""
        self._kinds[wire_topic(topic)] = kind
        listener = Listener(self._participant, topic, kind, depth, reliable)
        self._listeners.add(listener)
        self._is_announced = False
        return listener

    def announce(self) -> None:
        """Publish the node and its endpoints on `ros_discovery_info` if any were added since the last call.

        ROS 2 Iron and newer read it; Humble's participants have longer identifiers and must not receive it.
        """
        if self._graph is None or self._is_announced:
            return
        self._is_announced = True
        node = {
            "node_namespace": "/",
            "node_name": self.name,
            "reader_gid_seq": _gid_messages(self._listeners),
            "writer_gid_seq": _gid_messages(self._speakers),
        }
        (participant,) = _gid_messages([self])
        self._graph.say(layout_of(GRAPH_TYPE, gid=participant, node_entities_info_seq=[node]).data.tobytes())

    def strangers(self) -> list[str]:
        """Sentences about others that have come since it was asked last, whose type of a topic of ours is another one"""
        found = []
        for reader, does in zip(self._endpoints, ("publishes", "subscribes to"), strict=True):
            for own in reader.take(ENDPOINTS):
                kind = self._kinds.get(getattr(own, "topic_name", ""))
                if kind is not None and own.type_name != wire_type(kind):
                    topic = own.topic_name.removeprefix("rt")
                    found.append(f"someone {does} {topic} as {shown(own.type_name)}; expected {wire_type(kind)}")
        return found


class Speaker:
    """Says messages under one topic. Those for which there is no room in time are counted in `dropped`, never waited for."""

    def __init__(self, participant: Any, wire_name: str, kind: str, *, latched: bool) -> None:
        quality = _quality(kind, DEPTH if not latched else 1, latched=latched)
        own = _topic(participant, wire_name, kind)
        self._writer = cyclonedds("pub").DataWriter(participant, own, qos=quality)
        self.gid = _gid(self._writer)
        self._writer.data_type = Ready
        self._failed = cyclonedds("core").DDSException
        self._message = Ready()
        self.said = self.dropped = 0

    def say(self, data: bytes) -> None:
        """One message, as CDR with its head"""
        self._message.data = data
        try:
            self._writer.write(self._message)
            self.said += 1
        except self._failed:
            self.dropped += 1

    @property
    def heard_by(self) -> int:
        """How many listen"""
        return len(self._writer.get_matched_subscriptions())


class Listener:
    """Hears messages under one topic. Those of another type never arrive; bytes that are not of the type are counted in
    `malformed`, the last of them in `problem`. Of a flood the newest are heard, the others forgotten."""

    def __init__(self, participant: Any, topic: str, kind: str, depth: int, reliable: bool) -> None:
        quality = _quality(kind, depth, reliable=reliable)
        own = _topic(participant, wire_topic(topic), kind)
        own.data_type = Ready  # as bytes: Cyclone DDS's own reading of bad ones may raise anything
        self._reader = cyclonedds("sub").DataReader(participant, own, qos=quality)
        self.gid = _gid(self._reader)
        self.topic, self._kind, self._depth = topic, kind, depth
        self.count = self.malformed = 0
        self.problem = ""

    def heard(self) -> list[SimpleNamespace]:
        """What came since it was asked last, the newest at the end; it does not wait"""
        found = []
        for own in self._reader.take(self._depth):
            if not isinstance(own, Ready):  # a publisher went
                continue
            try:
                found.append(parsed(self._kind, own.data))
            except CdrError as error:
                self.malformed += 1
                self.problem = f"{self.topic}: {error}"
        self.count += len(found)
        return found

    @property
    def said_by(self) -> int:
        """How many publish"""
        return len(self._reader.get_matched_publications())


class Ready:
    """A message whose bytes are there: what Cyclone DDS asks for them is given these"""

    sample_info: Any = None

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def serialize(self, **_: Any) -> bytes:
        """The bytes"""
        return self.data

    @classmethod
    def deserialize(cls, data: bytes) -> "Ready":
        """Of the bytes, whatever they are"""
        return cls(data)

    @classmethod
    def deserialize_key(cls, data: bytes) -> None:
        """Messages of ROS 2 have none"""


def _gid(entity: Any) -> bytes:
    """Return the 16 bytes by which ROS 2 and DDS identify a participant or an endpoint."""
    identifier: bytes = entity.guid.bytes
    return identifier


def _gid_messages(entities: Iterable["Node | Speaker | Listener"]) -> list[dict[str, list[int]]]:
    return [{"data": list(gid)} for gid in sorted(entity.gid for entity in entities)]


def _topic(participant: Any, wire_name: str, kind: str) -> Any:
    return cyclonedds("topic").Topic(participant, wire_name, idl_type(kind), qos=cyclonedds("qos").Qos(_plain()))


def _plain() -> Any:
    """CDR as ROS 2 has it, and not the second version of it"""
    policy = cyclonedds("qos").Policy
    return policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False)


def _quality(kind: str, depth: int, *, latched: bool = False, reliable: bool = True) -> Any:
    """Return the QoS of an endpoint, reliable as ROS 2's own are by default, with the hash of its type."""
    qos = cyclonedds("qos")
    policy = qos.Policy
    return qos.Qos(
        policy.Reliability.Reliable(0) if reliable else policy.Reliability.BestEffort,
        policy.History.KeepLast(depth),
        policy.Durability.TransientLocal if latched else policy.Durability.Volatile,
        policy.Userdata(endpoint_user_data(kind)),
        _plain(),
    )
