"""The vectors of the connector protocol: whole frames with their length, and their fields.

The reference encoder made these bytes. Its encoder of phase 1 is broken, so V21 has the bytes that its decoder reads.
"""

from __future__ import annotations

from tests.connector.reference.frames import Frame

NEVER = 2**64 - 1
TXN = "app-w-w1-id-7:c_id=3"
_STREAM_0 = "05" + "00" * 26

VECTORS: dict[str, tuple[Frame, bytes]] = {
    "V01": (
        ("hello", "v0.0.1", "Dragons-Love-Tacos", "app", "w1"),
        bytes.fromhex("0000002600000676302e302e310012447261676f6e732d4c6f76652d5461636f73000361707000027731"),
    ),
    "V02": (
        ("hello", "0.0.1", "monster", "celsius at least once", "instance"),
        bytes.fromhex(
            "00000032000005302e302e3100076d6f6e73746572001563656c73697573206174206c6561737420"
            "6f6e63650008696e7374616e6365"
        ),
    ),
    "V03": (("hello", "0.0.1", "", "pé", "i"), bytes.fromhex("00000012000005302e302e310000000370c3a9000169")),
    "V04": (("ok", 500), bytes.fromhex("0000000501000001f4")),
    "V05": (
        ("error", "Unsupported stream id 2"),
        bytes.fromhex("0000001a020017556e737570706f727465642073747265616d2069642032"),
    ),
    "V06": (
        ("notify", 1, b"app-w-w1-id-7", 0),
        bytes.fromhex("00000020030000000000000001000d6170702d772d77312d69642d370000000000000000"),
    ),
    "V07": (("notify", NEVER, b"", NEVER), bytes.fromhex("0000001303ffffffffffffffff0000ffffffffffffffff")),
    "V08": (("notify_ack", True, 1, 0), bytes.fromhex("00000012040100000000000000010000000000000000")),
    "V09": (
        ("notify_ack", False, 0x0102030405060708, NEVER),
        bytes.fromhex("0000001204000102030405060708ffffffffffffffff"),
    ),
    "V10": (
        ("message", 1, 0, 0, None, b"hello\n"),
        bytes.fromhex("0000002105000000000000000100000000000000000000000000000000000068656c6c6f0a"),
    ),
    "V11": (
        ("message", 1, 6, -1, b"k", b"v"),
        bytes.fromhex("0000001d0500000000000000010000000000000006ffffffffffffffff00016b76"),
    ),
    "V12": (
        ("message", 1, 7, 1234567890123456789, None, b""),
        bytes.fromhex("0000001b0500000000000000010000000000000007112210f47de981150000"),
    ),
    "V13": (("ack", 10, []), bytes.fromhex("00000009060000000a00000000")),
    "V14": (
        ("ack", 1, [(1, 12), (5, 501)]),
        bytes.fromhex("000000290600000001000000020000000000000001000000000000000c000000000000000500000000000001f5"),
    ),
    "V15": (("restart", None), bytes.fromhex("000000050700000000")),
    "V16": (("restart", "127.0.0.1:5555"), bytes.fromhex("00000013070000000e3132372e302e302e313a35353535")),
    "V17": (("eos", 1), bytes.fromhex("00000009080000000000000001")),
    "V18": (("list", 1), bytes.fromhex("00000024" + _STREAM_0 + "c90000000000000001")),
    "V19": (("uncommitted", 1, []), bytes.fromhex("00000028" + _STREAM_0 + "ca000000000000000100000000")),
    "V20": (
        ("uncommitted", 1, [TXN]),
        bytes.fromhex(
            "0000003e050000000000000000000000000000000000000000000000000000ca0000000000000001"
            "0000000100146170702d772d77312d69642d373a635f69643d33"
        ),
    ),
    "V21": (
        ("phase1", TXN, [(1, 0, 6)]),
        bytes.fromhex(
            "0000004e050000000000000000000000000000000000000000000000000000cb00146170702d772d"
            "77312d69642d373a635f69643d3300000001000000000000000100000000000000000000000000000006"
        ),
    ),
    "V22": (
        ("vote", TXN, True),
        bytes.fromhex("00000033" + _STREAM_0 + "cc00146170702d772d77312d69642d373a635f69643d3301"),
    ),
    "V23": (("vote", "t", False), bytes.fromhex("00000020" + _STREAM_0 + "cc00017400")),
    "V24": (
        ("phase2", TXN, True),
        bytes.fromhex("00000033" + _STREAM_0 + "cd00146170702d772d77312d69642d373a635f69643d3301"),
    ),
    "V25": (("phase2", "t", False), bytes.fromhex("00000020" + _STREAM_0 + "cd00017400")),
    "V26": (
        ("workers_left", 7, ["w1", "w2"]),
        bytes.fromhex("00000030" + _STREAM_0 + "ce0000000000000007000000020002773100027732"),
    ),
}
