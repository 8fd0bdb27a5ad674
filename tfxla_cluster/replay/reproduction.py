"""A reproduction by itself: HLO text, inputs, and one Python file that runs them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import OutputError
from ..ir import text
from . import arrays
from .surgery import Program

MODULE, SCRIPT = "module.hlo", "reproduce.py"
_EMBEDDED = 256 * 1024  # bytes of text and inputs that stand in the script itself

_TEMPLATE = '''"""{title}

Run it with tfxla_cluster installed: it ends with 0 once the failure is gone, and with another code while it is there.
"""

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

HLO = {hlo}
INPUTS = [  # .npy files
{inputs}]
WORDS = {words!r}


def main(folder: Path) -> int:
    (folder / "module.hlo").write_text(HLO)
    words = [str(folder / "module.hlo")]
    for number, data in enumerate(INPUTS):
        path = folder / f"input.{{number}}.npy"
        path.write_bytes(base64.b64decode(data))
        words += ["--input", str(path)]
    return subprocess.call([sys.executable, "-m", "tfxla_cluster.cli.exec", *words, *WORDS])


with tempfile.TemporaryDirectory() as name:
    code = main(Path(name))
sys.exit(code)
'''
_BESIDE = '''"""{title}

Run it with tfxla_cluster installed: it ends with 0 once the failure is gone, and with another code while it is there.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORDS = {words!r}
inputs = [word for n in range({count}) for word in ("--input", str(HERE / f"input.{{n}}.npy"))]
command = [sys.executable, "-m", "tfxla_cluster.cli.exec", str(HERE / "module.hlo"), *inputs, *WORDS]
sys.exit(subprocess.call(command))
'''


def write(directory: Path, program: Program, title: str, words: Sequence[str]) -> list[Path]:
    """The files written into `directory`: the module, its inputs, and a script that runs `tfxla-exec` on them with
    `words`; small ones stand in the script too, which then needs no other file. OutputError where it cannot be
    written."""
    hlo = text.render(program.module)
    names = arrays.save(directory, program.inputs)
    small = len(hlo) + sum(a.nbytes for a in program.inputs) < _EMBEDDED
    title = title.replace("\\", "/").replace('"""', "'''")
    if small:
        lines = "".join(f'    "{_encoded(a)}",\n' for a in program.inputs)
        script = _TEMPLATE.format(title=title, hlo=_quoted(hlo), inputs=lines, words=list(words))
    else:
        script = _BESIDE.format(title=title, words=list(words), count=len(program.inputs))
    try:
        (directory / MODULE).write_text(hlo)
        (directory / SCRIPT).write_text(script)
    except OSError as error:
        raise OutputError(f"cannot write {directory}: {error.strerror}") from None
    return [directory / SCRIPT, directory / MODULE, *map(Path, names)]


def _quoted(hlo: str) -> str:
    return f'r"""{hlo}"""' if '"""' not in hlo and not hlo.endswith(("\\", '"')) else repr(hlo)


def _encoded(array: np.ndarray[Any, Any]) -> str:
    file = io.BytesIO()
    np.save(file, array)
    return base64.b64encode(file.getvalue()).decode()
