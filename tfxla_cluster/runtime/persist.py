"""Executables as store entries: plan JSON, constants and object code; loading needs no LLVM IR."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ..errors import InputFileError
from .plan import LaunchPlan
from .plan_json import from_data, to_data

KIND = "executable"


def to_sections(plan: LaunchPlan, objects: Sequence[bytes]) -> dict[str, bytes]:
    """`objects`: object files that define the symbols of the plan."""
    sections = {"plan.json": json.dumps(to_data(plan)).encode()}
    sections.update({f"constant.{n}": data for n, data in enumerate(plan.constants)})
    sections.update({f"object.{n}": data for n, data in enumerate(objects)})
    return sections


def from_sections(sections: Mapping[str, bytes]) -> tuple[LaunchPlan, list[bytes]]:
    """The plan and the object files; InputFileError for other contents."""
    try:
        data = json.loads(sections["plan.json"])
    except (KeyError, ValueError) as error:
        raise InputFileError(f"no launch plan: {error!r}") from None
    return from_data(data, _numbered(sections, "constant")), _numbered(sections, "object")


def _numbered(sections: Mapping[str, bytes], name: str) -> list[bytes]:
    found: list[bytes] = []
    while f"{name}.{len(found)}" in sections:
        found.append(sections[f"{name}.{len(found)}"])
    return found
