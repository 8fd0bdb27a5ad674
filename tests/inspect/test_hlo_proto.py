"""HLO protos as text: against what XLA prints of the same proto, and protos that no printer of ours knows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests import oracle
from tests.hlo_case import Case
from tests.hlo_cases import CASES
from tests.inspect import sample
from tfxla_inspect import decoders
from tfxla_inspect.parsers import buffers, hlo, wire
from tfxla_inspect.parsers.hlo_schema import MESSAGES
from tfxla_inspect.reading import Reader
from tfxla_inspect.scan import scan

DATA = sorted((Path(__file__).parents[1] / "data").glob("*.hlo.pb"))
# Of the module's configuration, which is not in the proto.
_CONFIGURED = re.compile(r", (?:allow_spmd_sharding_propagation_to_\w+=\{[\w,]*\}|alias_passthrough_params=true)")


# Spellings in which the IR's printer is plainer, or plainly differs: what it prints XLA reads alike.
_SPELLINGS = (
    (r"\\'", "'"),
    (r"(?<![\d.])-0(?=[,} )])", "-0.0"),
    (r" pred\[\] constant\(true\)", " pred[] constant(1)"),
    (r" pred\[\] constant\(false\)", " pred[] constant(0)"),
    (r", lower=false", ""),
    (r", [lr]hs_contracting_dims=\{\}", ""),
    (r"(?<=\d:)(\d+):1\]", r"\1]"),
    (r"(-?\d+_-?\d+)_0(?=[x,]|$)", r"\1"),
)


def lines(text: str) -> Counter[str]:
    """Of a module, in any order: protos have the computations in another one."""
    plain = _CONFIGURED.sub("", text)
    for pattern, plainer in _SPELLINGS:
        plain = re.sub(pattern, plainer, plain, flags=re.MULTILINE)
    plain = re.sub(r"\b\d\.\d+(?:e[+-]\d+)?", lambda found: str(np.float32(found[0])), plain)  # XLA has a digit more
    return Counter(line for line in plain.splitlines() if line)


def of_xla(data: bytes) -> str:
    from jaxlib import _hlo

    return str(_hlo.HloModule.from_serialized_hlo_module_proto(data).to_string())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_reads_as_xla_prints_it(case: Case) -> None:
    data = oracle.proto(case.text)
    mine, theirs = lines(decoders.DECODERS["hlo"](data)), lines(of_xla(data))
    assert mine - theirs == theirs - mine == Counter()


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_modules_of_the_bridge(path: Path) -> None:
    data = path.read_bytes()
    mine, theirs = lines(decoders.DECODERS["hlo"](data)), lines(of_xla(data))
    assert mine - theirs == theirs - mine == Counter()


# --- what a dump without text shows ---

FRAMES = """
FileNames
1 "/home/me/train.py"
2 "/home/me/model's.py"

FunctionNames
1 "<module>"
2 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=9}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=2 end_column=8}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

"""


def test_tables_of_lines_survive() -> None:
    head, _, body = sample.AFTER.partition("\n\n")
    text = head + "\n" + FRAMES + body.replace('op_name="x"', 'op_name="x" stack_frame_id=2')
    data = oracle.proto(text)
    read = decoders.DECODERS["hlo"](data)
    mine, theirs = lines(read), lines(of_xla(data))
    assert mine - theirs == theirs - mine == Counter()
    for row in FRAMES.strip().splitlines():
        assert row in read


def proto_dump(directory: Path) -> Path:
    directory.mkdir()
    for name, text in (("before_optimizations", sample.BEFORE), ("cpu_after_optimizations", sample.AFTER)):
        (directory / f"module_0000.m.{name}.hlo.pb").write_bytes(oracle.proto(text))
    (directory / "module_0000.m.0003.p.after_a.before_b.hlo.pb").write_bytes(oracle.proto(sample.BEFORE))
    return directory


def test_protos_stand_for_texts_that_are_not_there(tmp_path: Path) -> None:
    (module,) = scan(proto_dump(tmp_path / "d")).modules
    reader = Reader()
    for kind, text in (("before", sample.BEFORE), ("after", sample.AFTER), ("pass", sample.BEFORE)):
        read = hlo.parse(reader.text(module.one(kind)))
        assert read.opcodes() == hlo.parse(text).opcodes()
        assert read.unread == 0
    assert not reader.problems
    (tmp_path / "d" / "module_0000.m.before_optimizations.txt").write_text("HloModule other")
    (module,) = scan(tmp_path / "d").modules
    assert reader.text(module.one("before")) == "HloModule other"


def test_buffers_of_a_proto() -> None:
    module = MESSAGES["HloModuleProto"].FromString(oracle.proto(sample.AFTER))
    proto = MESSAGES["HloProto"](hlo_module=module)
    root = module.computations[-1].instructions[-1]
    assignment = proto.buffer_assignment
    assignment.logical_buffers.add(id=4, size=32).defined_at.instruction_id = root.id
    kept = assignment.buffer_allocations.add(index=0, size=32, maybe_live_out=True)
    kept.assigned.add(logical_buffer_id=4, size=32)
    kept.assigned.add(logical_buffer_id=99, size=8, offset=8)  # of a value that is not listed
    taken = assignment.buffer_allocations.add(index=1, size=128, is_entry_computation_parameter=True)
    taken.parameter_number = 1
    text = decoders.DECODERS["buffers"](proto.SerializeToString())
    assert "allocation 1: size 128, parameter 1, shape |f32[32]| at ShapeIndex {}:" in text
    out, parameter = buffers.parse(text)
    assert (out.kind, parameter.kind) == ("output", "parameter")
    assert out.values == [("multiply_reduce_fusion", 32, 0, "f32[8]{0}"), ("?", 8, 8, "?")]


def test_snapshots() -> None:
    module = MESSAGES["HloModuleProto"].FromString(oracle.proto(sample.BEFORE))
    plain = decoders.DECODERS["hlo"](module.SerializeToString())
    bare = b"\x0a" + varint(module.ByteSize()) + module.SerializeToString()
    for data in (bare, varint(len(bare)) + bare, bare + b"\xff" * 40):
        assert decoders.DECODERS["snapshots"](data) == plain
    snapshot = MESSAGES["HloSnapshot"](execution_platform="cpu")
    snapshot.hlo.hlo_module.CopyFrom(module)
    shape = snapshot.arguments.add().shape
    shape.element_type, shape.dimensions[:] = 11, [8, 32]
    text = decoders.DECODERS["snapshot"](snapshot.SerializeToString())
    assert text.startswith("// snapshot on cpu, 1 inputs\n// input 0: f32[8,32]\nHloModule cluster_0")
    assert hlo.parse(text).count == hlo.parse(sample.BEFORE).count


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def test_what_later_versions_may_write_is_shown_as_it_is() -> None:
    """An opcode, a type and enumeration values that nobody here knows, operands and computations that are not there."""
    proto = MESSAGES["HloModuleProto"].FromString(oracle.proto(sample.BEFORE))
    entry = next(c for c in proto.computations if c.id == proto.entry_computation_id)
    new = entry.instructions.add(name="new", opcode="quantum-dot", id=77)
    new.shape.element_type, new.shape.dimensions[:] = 99, [3]
    new.operand_ids[:] = [12345]
    new.called_computation_ids[:] = [999]
    new.precision_config.algorithm = 12345
    fft = entry.instructions.add(name="odd", opcode="fft", fft_type=55, id=78)
    fft.shape.element_type = 11
    text = decoders.DECODERS["hlo"](proto.SerializeToString())
    assert "%new = type99[3] quantum-dot(%?)" in text
    assert "%odd = f32[] fft()" in text
    assert hlo.parse(text).unread == 0


@pytest.mark.parametrize("form", sorted(decoders.DECODERS))
def test_damaged_protos_are_value_errors(form: str) -> None:
    data = oracle.proto(sample.AFTER)
    damaged = [data[:n] for n in range(0, len(data), 41)] + [
        b"",
        b"\xff" * 30,
        b"\x0a\xff\xff\xff\xff\x7f",
        b"plain text",
    ]
    damaged += [data[:n] + bytes([data[n] ^ 0x41]) + data[n + 1 :] for n in range(0, len(data), 29)]
    read = 0
    for one in damaged:
        try:
            decoders.DECODERS[form](one)
            read += 1
        except ValueError:
            continue
    assert read < len(damaged)


def test_fields_without_a_definition() -> None:
    inner = b"\x08\x05"
    data = b"\x0a\x03abc" + b"\x12" + bytes([len(inner)]) + inner + b"\x1a\x02\xff\xfe" + b"\x25" + b"\0\0\x80?"
    assert wire.printed(data) == '1: "abc"\n2 {\n  1: 5\n}\n3: 2 bytes\n4: 1.0\n'
    deep = b""
    for _ in range(100):
        deep = b"\x0a" + varint(len(deep)) + deep
    assert wire.printed(deep).count("\n") < 100
    with pytest.raises(ValueError, match="cut off"):
        wire.printed(b"\x0a\x05abc")
