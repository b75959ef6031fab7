"""A DDS participant that ROS 2 lists as a node: it publishes serialised messages and subscribes to topics."""

from collections.abc import Iterable
from types import SimpleNamespace, TracebackType
from typing import Any
from weakref import WeakSet

from samara.core.sanitise import quote_value
from samara.link.ros2.dds import (
    ENCLAVE,
    configuration,
    confine_to_loopback,
    cyclonedds,
    dds_topic_name,
    dds_type,
    endpoint_user_data,
    idl_type,
    require_domain,
    require_node_name,
    silence_warnings,
    wildcard_sockets,
)
from samara.record.ros2.messages import CdrError, cdr_layout, parse_message

DEPTH = 10  # history depth: messages buffered for a slow reader
ENDPOINTS = 100  # endpoints of other participants that are read at once
GRAPH_TOPIC, GRAPH_TYPE = "ros_discovery_info", "rmw_dds_common/ParticipantEntitiesInfo"


class Ros2Node:
    """A ROS 2 node, by default on loopback and in domain 0. A process can have only one node per domain at a time.

    `is_confined` is whether its sockets receive from loopback only: false with an interface, or if the system cannot restrict
    them. `announce` publishes the node's `name` and endpoints to ROS 2's graph; with an empty name it publishes nothing.
    """

    def __init__(self, domain: int = 0, interface: str = "", *, name: str = "samara") -> None:
        """Join a domain; raise MissingExtraError without Cyclone DDS, ValueError for an invalid domain, interface or name."""
        domains, settings, qos = cyclonedds("domain"), configuration(interface), cyclonedds("qos")
        self.name = require_node_name(name)
        silence_warnings()
        self._message_types: dict[str, str] = {}  # by DDS topic
        sockets_before = wildcard_sockets()
        try:
            self._domain = domains.Domain(require_domain(domain), settings)
            self._participant = domains.DomainParticipant(domain, qos=qos.Qos(qos.Policy.Userdata(ENCLAVE)))
        except cyclonedds("core").DDSException as error:
            network = f"interface {interface!r}" if interface else "loopback"
            raise ValueError(
                f"ROS 2 on {network}, domain {domain}, cannot be opened; expected an interface that is up, and a domain "
                "that no other node of this process is in"
            ) from error
        self.is_confined = not interface and confine_to_loopback(wildcard_sockets() - sockets_before)
        builtin = cyclonedds("builtin")
        builtin_topics = builtin.BuiltinTopicDcpsPublication, builtin.BuiltinTopicDcpsSubscription
        self._endpoints = [
            builtin.BuiltinDataReader(self._participant, builtin_topic) for builtin_topic in builtin_topics
        ]
        self.gid = _gid(self._participant)
        self._graph_publisher = Publisher(self._participant, GRAPH_TOPIC, GRAPH_TYPE, latched=True) if name else None
        self._publishers: WeakSet[Publisher] = WeakSet()
        self._subscriptions: WeakSet[Subscription] = WeakSet()
        self._is_announced = False

    def __enter__(self) -> "Ros2Node":
        return self

    def __exit__(
        self, exception_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the domain; other participants are notified."""
        self._participant.__del__()  # also deletes its endpoints, which may still be referenced
        self._domain.__del__()

    def create_publisher(self, topic: str, message_type: str, *, latched: bool = False) -> "Publisher":
        """Create a publisher of a message type on a topic such as '/drone/imu'."""
        self._message_types[dds_topic_name(topic)] = message_type
        publisher = Publisher(self._participant, dds_topic_name(topic), message_type, latched=latched)
        self._publishers.add(publisher)
        self._is_announced = False
        return publisher

    def create_subscription(
        self, topic: str, message_type: str, *, depth: int = DEPTH, reliable: bool = True
    ) -> "Subscription":
        """Create a subscription with a history of `depth` messages.

        One that is not `reliable` may lose messages, and also matches publishers that are not reliable.
        """
        self._message_types[dds_topic_name(topic)] = message_type
        subscription = Subscription(self._participant, topic, message_type, depth, reliable)
        self._subscriptions.add(subscription)
        self._is_announced = False
        return subscription

    def announce(self) -> None:
        """Publish the node and its endpoints on `ros_discovery_info` if any were added since the last call.

        ROS 2 Iron and newer read it; Humble's participants have longer identifiers and must not receive it.
        """
        if self._graph_publisher is None or self._is_announced:
            return
        self._is_announced = True
        node = {
            "node_namespace": "/",
            "node_name": self.name,
            "reader_gid_seq": _gid_messages(self._subscriptions),
            "writer_gid_seq": _gid_messages(self._publishers),
        }
        (participant,) = _gid_messages([self])
        self._graph_publisher.publish(
            cdr_layout(GRAPH_TYPE, gid=participant, node_entities_info_seq=[node]).data.tobytes()
        )

    def type_mismatches(self) -> list[str]:
        """Return messages about new endpoints of other participants that use another type on one of this node's topics."""
        mismatches = []
        for reader, relation in zip(self._endpoints, ("publishes", "subscribes to"), strict=True):
            for endpoint in reader.take(ENDPOINTS):
                message_type = self._message_types.get(getattr(endpoint, "topic_name", ""))
                if message_type is not None and endpoint.type_name != dds_type(message_type):
                    topic = endpoint.topic_name.removeprefix("rt")
                    mismatches.append(
                        f"someone {relation} {topic} as {quote_value(endpoint.type_name)}; expected {dds_type(message_type)}"
                    )
        return mismatches


class Publisher:
    """Publishes messages on one topic. Messages that do not fit the buffer are counted in `dropped`; it never blocks."""

    def __init__(self, participant: Any, wire_name: str, message_type: str, *, latched: bool) -> None:
        qos = _endpoint_qos(message_type, DEPTH if not latched else 1, latched=latched)
        dds_topic = _topic(participant, wire_name, message_type)
        self._writer = cyclonedds("pub").DataWriter(participant, dds_topic, qos=qos)
        self.gid = _gid(self._writer)
        self._writer.data_type = SerializedMessage
        self._dds_error = cyclonedds("core").DDSException
        self._message = SerializedMessage()
        self.published = self.dropped = 0

    def publish(self, data: bytes) -> None:
        """Publish one message, as CDR with its encapsulation header."""
        self._message.data = data
        try:
            self._writer.write(self._message)
            self.published += 1
        except self._dds_error:
            self.dropped += 1

    @property
    def subscription_count(self) -> int:
        """Count of matched subscriptions."""
        return len(self._writer.get_matched_subscriptions())


class Subscription:
    """Receives messages on one topic. Messages of another type never arrive.

    Bytes that are not of the type are counted in `malformed`; `problem` describes the last of them. If messages arrive faster
    than they are taken, the newest `depth` are retained.
    """

    def __init__(self, participant: Any, topic: str, message_type: str, depth: int, reliable: bool) -> None:
        qos = _endpoint_qos(message_type, depth, reliable=reliable)
        dds_topic = _topic(participant, dds_topic_name(topic), message_type)
        dds_topic.data_type = (
            SerializedMessage  # as bytes: Cyclone DDS's deserialisation of malformed bytes may raise any exception
        )
        self._reader = cyclonedds("sub").DataReader(participant, dds_topic, qos=qos)
        self.gid = _gid(self._reader)
        self.topic, self._message_type, self._depth = topic, message_type, depth
        self.count = self.malformed = 0
        self.problem = ""

    def take(self) -> list[SimpleNamespace]:
        """Take the messages received since the last call, oldest first; never block."""
        messages = []
        for sample in self._reader.take(self._depth):
            if not isinstance(sample, SerializedMessage):  # a publisher was deleted
                continue
            try:
                messages.append(parse_message(self._message_type, sample.data))
            except CdrError as error:
                self.malformed += 1
                self.problem = f"{self.topic}: {error}"
        self.count += len(messages)
        return messages

    @property
    def publisher_count(self) -> int:
        """Count of matched publishers."""
        return len(self._reader.get_matched_publications())


class SerializedMessage:
    """A message as serialised bytes, with the interface of Cyclone DDS's IDL types."""

    sample_info: Any = None

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def serialize(self, **_: Any) -> bytes:
        """Return the bytes."""
        return self.data

    @classmethod
    def deserialize(cls, data: bytes) -> "SerializedMessage":
        """Wrap bytes without parsing them."""
        return cls(data)

    @classmethod
    def deserialize_key(cls, data: bytes) -> None:
        """Return None: ROS 2 messages have no key."""


def _gid(entity: Any) -> bytes:
    """Return the 16 bytes by which ROS 2 and DDS identify a participant or an endpoint."""
    identifier: bytes = entity.guid.bytes
    return identifier


def _gid_messages(entities: Iterable["Ros2Node | Publisher | Subscription"]) -> list[dict[str, list[int]]]:
    return [{"data": list(gid)} for gid in sorted(entity.gid for entity in entities)]


def _topic(participant: Any, wire_name: str, message_type: str) -> Any:
    return cyclonedds("topic").Topic(
        participant, wire_name, idl_type(message_type), qos=cyclonedds("qos").Qos(_data_representation())
    )


def _data_representation() -> Any:
    """Plain CDR (XCDR1) as in ROS 2, not XCDR2."""
    policy = cyclonedds("qos").Policy
    return policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False)


def _endpoint_qos(message_type: str, depth: int, *, latched: bool = False, reliable: bool = True) -> Any:
    """Return the QoS of an endpoint: reliable, as in ROS 2 by default, with its type hash as user data."""
    qos = cyclonedds("qos")
    policy = qos.Policy
    return qos.Qos(
        policy.Reliability.Reliable(0) if reliable else policy.Reliability.BestEffort,
        policy.History.KeepLast(depth),
        policy.Durability.TransientLocal if latched else policy.Durability.Volatile,
        policy.Userdata(endpoint_user_data(message_type)),
        _data_representation(),
    )
