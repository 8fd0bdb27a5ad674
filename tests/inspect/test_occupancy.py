"""Kernels' facts: registers from machine code, occupancy by hand-computed cases, costs of launches."""

from __future__ import annotations

import random
import struct

import pytest

from tfxla_inspect import measures
from tfxla_inspect.occupancy import Occupancy, occupancy
from tfxla_inspect.parsers import cubin


def elf(registers: int = 40, frame: int = 16, threads: tuple[int, int, int] = (64, 1, 1)) -> bytes:
    """A cubin with what is read of one: its kernel `k` is symbol 5."""
    sections = ("", ".shstrtab", ".nv.info", ".nv.info.k", ".text.k")
    names = "\0".join([*sections, ""]).encode()
    pair = "<BBHII"
    of_file = struct.pack(pair, 4, 0x2F, 8, 3, 99) + struct.pack("<BBH", 3, 0x50, 0)
    of_file += struct.pack(pair, 4, 0x2F, 8, 5, registers) + struct.pack(pair, 4, 0x11, 8, 5, frame)
    of_kernel = struct.pack("<BBHIII", 4, 0x10, 12, *threads)
    body, headers, at = b"", [], 0
    for name, part, info in zip(sections, (b"", names, of_file, of_kernel, b"code"), (0, 0, 0, 4, (7 << 24) | 5)):
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, 64 + len(body), len(part), 0, info, 1, 0))
        body += part
        at += len(name) + 1
    head = b"\x7fELF" + bytes(36) + struct.pack("<Q", 64 + len(body)) + bytes(12) + struct.pack("<HH", 5, 1)
    return head + body + b"".join(headers)


def test_machine_code_says_registers_stack_and_threads() -> None:
    assert cubin.parse(elf()) == cubin.Code(40, 16, 64)
    assert cubin.parse(elf(255, 0, (32, 4, 2))) == cubin.Code(255, 0, 256)


def test_what_is_no_machine_code_says_nothing() -> None:
    assert cubin.parse(b"") == cubin.Code()
    assert cubin.parse(b"\x7fELF") == cubin.Code()
    whole, dice = elf(), random.Random(4)
    for _ in range(300):
        damaged = bytearray(whole[: dice.randrange(len(whole))] if dice.randrange(2) else whole)
        for _ in range(5):
            if damaged:
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        assert isinstance(cubin.parse(bytes(damaged)), cubin.Code)


@pytest.mark.parametrize(
    ("arch", "warps", "registers", "shared", "wanted"),
    [
        ("sm_90", 1, 22, 0, Occupancy(32, 0.5, "blocks")),  # 32 blocks of a warp of 64
        ("sm_90", 4, 32, 0, Occupancy(16, 1.0, "warps")),
        ("sm_80", 8, 64, 0, Occupancy(4, 0.5, "registers")),  # 64 * 32 * 8 registers a block, of 65536
        ("sm_80", 8, 65, 0, Occupancy(3, 0.375, "registers")),  # a warp's go in steps of 256
        ("sm_9.0", 4, 32, 100 * 1024, Occupancy(2, 0.125, "shared memory")),
        ("sm_90", 4, 255, 300 * 1024, Occupancy(0, 0.0, "shared memory")),
    ],
)
def test_occupancy(arch: str, warps: int, registers: int, shared: int, wanted: Occupancy) -> None:
    assert occupancy(arch, warps, registers, shared) == wanted


def test_no_occupancy_of_machines_not_known() -> None:
    assert occupancy("znver3", 4, 32, 0) is None
    assert occupancy("sm_90", 0, 32, 0) is None


def test_costs_are_those_of_each_launch() -> None:
    """Two launches of different sizes: bytes and floor of a run are their mean."""
    launches = [{"instr": "a", "bytes": 100, "flops": 5, "floor_ms": 1.0}, {"instr": "b", "bytes": 300, "flops": None}]
    row = {"symbol": "k", "instr": "a", "bytes": 100, "flops": 5, "launches": launches}
    found = measures.Measures(10, 10, {}, {"k": measures.StepTime(20, 40.0, 1.5, 2.0)})
    (kernel,) = measures.kernels([row], {"k": ["a", "b"]}, found)
    assert (kernel.bytes, kernel.operations, kernel.floor) == (200, 5, 1.0)
    assert (kernel.each, kernel.ms, kernel.excess, kernel.rate) == (2.0, 40.0, 2.0, 100.0)
