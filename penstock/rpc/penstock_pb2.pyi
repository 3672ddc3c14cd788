import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Consistency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENTUAL: _ClassVar[Consistency]
    SESSION: _ClassVar[Consistency]
    LINEARIZABLE: _ClassVar[Consistency]
EVENTUAL: Consistency
SESSION: Consistency
LINEARIZABLE: Consistency

class UpsertRequest(_message.Message):
    __slots__ = ("table", "lines", "msgpack", "session", "number", "strict", "conditions", "dry_run")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    MSGPACK_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    table: str
    lines: bytes
    msgpack: bytes
    session: str
    number: int
    strict: bool
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    dry_run: bool
    def __init__(self, table: _Optional[str] = ..., lines: _Optional[bytes] = ..., msgpack: _Optional[bytes] = ..., session: _Optional[str] = ..., number: _Optional[int] = ..., strict: _Optional[bool] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("key", "absent", "ts")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    absent: bool
    ts: bytes
    def __init__(self, key: _Optional[bytes] = ..., absent: _Optional[bool] = ..., ts: _Optional[bytes] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("table", "keys", "ts", "session", "number", "strict", "conditions")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    table: str
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    ts: bytes
    session: str
    number: int
    strict: bool
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, table: _Optional[str] = ..., keys: _Optional[_Iterable[bytes]] = ..., ts: _Optional[bytes] = ..., session: _Optional[str] = ..., number: _Optional[int] = ..., strict: _Optional[bool] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class WriteReply(_message.Message):
    __slots__ = ("applied", "equal", "late", "held", "rejected", "filtered", "rejections", "token", "upto", "duplicate", "aside")
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    EQUAL_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    FILTERED_FIELD_NUMBER: _ClassVar[int]
    REJECTIONS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ASIDE_FIELD_NUMBER: _ClassVar[int]
    applied: int
    equal: int
    late: int
    held: int
    rejected: int
    filtered: int
    rejections: _containers.RepeatedCompositeFieldContainer[Rejection]
    token: bytes
    upto: int
    duplicate: int
    aside: int
    def __init__(self, applied: _Optional[int] = ..., equal: _Optional[int] = ..., late: _Optional[int] = ..., held: _Optional[int] = ..., rejected: _Optional[int] = ..., filtered: _Optional[int] = ..., rejections: _Optional[_Iterable[_Union[Rejection, _Mapping]]] = ..., token: _Optional[bytes] = ..., upto: _Optional[int] = ..., duplicate: _Optional[int] = ..., aside: _Optional[int] = ...) -> None: ...

class Rejection(_message.Message):
    __slots__ = ("table", "place", "reason")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    table: str
    place: str
    reason: str
    def __init__(self, table: _Optional[str] = ..., place: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("of", "keys", "consistency", "token", "history")
    OF_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    of: str
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    consistency: Consistency
    token: bytes
    history: bool
    def __init__(self, of: _Optional[str] = ..., keys: _Optional[_Iterable[bytes]] = ..., consistency: _Optional[_Union[Consistency, str]] = ..., token: _Optional[bytes] = ..., history: _Optional[bool] = ...) -> None: ...

class GetReply(_message.Message):
    __slots__ = ("rows", "token")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    token: bytes
    def __init__(self, rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., token: _Optional[bytes] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("key", "value", "present", "held", "as_of", "history")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    present: bool
    held: bool
    as_of: bytes
    history: _containers.RepeatedCompositeFieldContainer[Change]
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., present: _Optional[bool] = ..., held: _Optional[bool] = ..., as_of: _Optional[bytes] = ..., history: _Optional[_Iterable[_Union[Change, _Mapping]]] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("of", "start", "stop", "prefix", "reverse", "limit", "level", "consistency", "token", "cursor")
    OF_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    REVERSE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    of: str
    start: bytes
    stop: bytes
    prefix: bytes
    reverse: bool
    limit: int
    level: int
    consistency: Consistency
    token: bytes
    cursor: bytes
    def __init__(self, of: _Optional[str] = ..., start: _Optional[bytes] = ..., stop: _Optional[bytes] = ..., prefix: _Optional[bytes] = ..., reverse: _Optional[bool] = ..., limit: _Optional[int] = ..., level: _Optional[int] = ..., consistency: _Optional[_Union[Consistency, str]] = ..., token: _Optional[bytes] = ..., cursor: _Optional[bytes] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("rows", "token", "cursor")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    token: bytes
    cursor: bytes
    def __init__(self, rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., token: _Optional[bytes] = ..., cursor: _Optional[bytes] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("views", "initial", "since", "coalesce_ms", "prefix")
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    COALESCE_MS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedScalarFieldContainer[str]
    initial: bool
    since: bytes
    coalesce_ms: int
    prefix: bytes
    def __init__(self, views: _Optional[_Iterable[str]] = ..., initial: _Optional[bool] = ..., since: _Optional[bytes] = ..., coalesce_ms: _Optional[int] = ..., prefix: _Optional[bytes] = ...) -> None: ...

class Changes(_message.Message):
    __slots__ = ("changes", "token", "lagged")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAGGED_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    token: bytes
    lagged: bool
    def __init__(self, changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., token: _Optional[bytes] = ..., lagged: _Optional[bool] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("view", "group", "old", "new", "position")
    VIEW_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OLD_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    view: str
    group: bytes
    old: bytes
    new: bytes
    position: bytes
    def __init__(self, view: _Optional[str] = ..., group: _Optional[bytes] = ..., old: _Optional[bytes] = ..., new: _Optional[bytes] = ..., position: _Optional[bytes] = ...) -> None: ...

class LocateRequest(_message.Message):
    __slots__ = ("of", "keys")
    OF_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    of: str
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, of: _Optional[str] = ..., keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("version", "partitions", "servers", "located")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    LOCATED_FIELD_NUMBER: _ClassVar[int]
    version: int
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    servers: _containers.RepeatedCompositeFieldContainer[Server]
    located: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., servers: _Optional[_Iterable[_Union[Server, _Mapping]]] = ..., located: _Optional[_Iterable[int]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("id", "range", "replicas", "epoch", "position", "log_offset", "lag", "bytes", "digest", "state")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Partition.State]
        STARTING: _ClassVar[Partition.State]
        READY: _ClassVar[Partition.State]
        MOVING: _ClassVar[Partition.State]
        STOPPED: _ClassVar[Partition.State]
    UNKNOWN: Partition.State
    STARTING: Partition.State
    READY: Partition.State
    MOVING: Partition.State
    STOPPED: Partition.State
    ID_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LOG_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: int
    range: str
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    epoch: int
    position: bytes
    log_offset: int
    lag: int
    bytes: int
    digest: bytes
    state: Partition.State
    def __init__(self, id: _Optional[int] = ..., range: _Optional[str] = ..., replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., epoch: _Optional[int] = ..., position: _Optional[bytes] = ..., log_offset: _Optional[int] = ..., lag: _Optional[int] = ..., bytes: _Optional[int] = ..., digest: _Optional[bytes] = ..., state: _Optional[_Union[Partition.State, str]] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("server", "primary", "in_sync")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    server: str
    primary: bool
    in_sync: bool
    def __init__(self, server: _Optional[str] = ..., primary: _Optional[bool] = ..., in_sync: _Optional[bool] = ...) -> None: ...

class Server(_message.Message):
    __slots__ = ("id", "data", "http", "control")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    id: str
    data: str
    http: str
    control: str
    def __init__(self, id: _Optional[str] = ..., data: _Optional[str] = ..., http: _Optional[str] = ..., control: _Optional[str] = ...) -> None: ...

class AddPartitionRequest(_message.Message):
    __slots__ = ("id", "range", "servers", "from_snapshot")
    ID_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    FROM_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    id: int
    range: str
    servers: _containers.RepeatedScalarFieldContainer[str]
    from_snapshot: str
    def __init__(self, id: _Optional[int] = ..., range: _Optional[str] = ..., servers: _Optional[_Iterable[str]] = ..., from_snapshot: _Optional[str] = ...) -> None: ...

class RmPartRequest(_message.Message):
    __slots__ = ("id", "range", "merge_into")
    ID_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    MERGE_INTO_FIELD_NUMBER: _ClassVar[int]
    id: int
    range: str
    merge_into: int
    def __init__(self, id: _Optional[int] = ..., range: _Optional[str] = ..., merge_into: _Optional[int] = ...) -> None: ...

class ListPartRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MoveRequest(_message.Message):
    __slots__ = ("partition", "server", "primary")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    partition: int
    server: str
    primary: bool
    def __init__(self, partition: _Optional[int] = ..., server: _Optional[str] = ..., primary: _Optional[bool] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("partition", "path")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    partition: int
    path: str
    def __init__(self, partition: _Optional[int] = ..., path: _Optional[str] = ...) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("path", "partition", "force")
    PATH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    path: str
    partition: int
    force: bool
    def __init__(self, path: _Optional[str] = ..., partition: _Optional[int] = ..., force: _Optional[bool] = ...) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ("fix",)
    FIX_FIELD_NUMBER: _ClassVar[int]
    fix: bool
    def __init__(self, fix: _Optional[bool] = ...) -> None: ...

class RestateRequest(_message.Message):
    __slots__ = ("name", "group")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    name: str
    group: bytes
    def __init__(self, name: _Optional[str] = ..., group: _Optional[bytes] = ...) -> None: ...

class Selection(_message.Message):
    __slots__ = ("ids", "kind", "table", "view", "limit", "computation", "key", "late")
    IDS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    kind: str
    table: str
    view: str
    limit: int
    computation: str
    key: bytes
    late: bool
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., kind: _Optional[str] = ..., table: _Optional[str] = ..., view: _Optional[str] = ..., limit: _Optional[int] = ..., computation: _Optional[str] = ..., key: _Optional[bytes] = ..., late: _Optional[bool] = ...) -> None: ...

class RetryRequest(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: Selection
    def __init__(self, entries: _Optional[_Union[Selection, _Mapping]] = ...) -> None: ...

class DropRequest(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: Selection
    def __init__(self, entries: _Optional[_Union[Selection, _Mapping]] = ...) -> None: ...

class MigrateRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class CompactRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class OperationId(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("id", "kind", "by", "state", "done", "total", "result", "error", "began", "ended")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WAITING: _ClassVar[Operation.State]
        RUNNING: _ClassVar[Operation.State]
        DONE: _ClassVar[Operation.State]
        FAILED: _ClassVar[Operation.State]
        CANCELLED: _ClassVar[Operation.State]
    WAITING: Operation.State
    RUNNING: Operation.State
    DONE: Operation.State
    FAILED: Operation.State
    CANCELLED: Operation.State
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    by: str
    state: Operation.State
    done: int
    total: int
    result: bytes
    error: str
    began: _timestamp_pb2.Timestamp
    ended: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., by: _Optional[str] = ..., state: _Optional[_Union[Operation.State, str]] = ..., done: _Optional[int] = ..., total: _Optional[int] = ..., result: _Optional[bytes] = ..., error: _Optional[str] = ..., began: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
