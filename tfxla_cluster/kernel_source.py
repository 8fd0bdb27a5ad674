"""A user's Triton kernel from the Python function, or the file, that defines it, without importing Triton.

Triton cannot be imported beside TensorFlow, so a program that has both writes its kernels with the names here:

    from tfxla_cluster import tl, triton_kernel

    @triton_kernel
    def add(x, y, out, n, BLOCK: tl.constexpr): ...

The function never runs in this process. Its text is read with that of the kernels it calls; plain numbers of its
module become constexprs. A file that imports Triton itself stays a file: `triton_kernel("kernels.py:add")`.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from .errors import UserKernelError
from .user_kernels import KernelSource

HEAD = """import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice
"""


class Language:
    """Stands for a name of Triton's language (`tl.load`, `tl.float32`) in a process that must not import Triton."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Language:
        if name.startswith("__"):
            raise AttributeError(name)
        return Language(f"{self.path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.path == "tl.constexpr" and len(args) == 1 and not kwargs:
            return args[0]
        raise UserKernelError(
            f"{self.path} runs inside a kernel only", "Launch the kernel by tfxla_cluster.triton_call"
        )

    def __repr__(self) -> str:
        return self.path


tl = Language("tl")
libdevice = Language("libdevice")


class TritonKernel:
    """A kernel for `triton_call`: `source` is its text with all that it uses."""

    def __init__(self, source: KernelSource) -> None:
        self.source = source
        self.__name__ = source.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise UserKernelError(
            f"kernel {self.__name__} is launched by tfxla_cluster.triton_call", where=self.source.where
        )


def triton_kernel(kernel: Callable[..., Any] | str) -> TritonKernel:
    """The kernel that a Python function is, or that "FILE.py:FUNCTION" names. UserKernelError where its text cannot
    be had, or names what no kernel can use."""
    if isinstance(kernel, TritonKernel):
        return kernel
    return TritonKernel(_of_file(kernel) if isinstance(kernel, str) else _of_function(kernel))


def literal(value: Any) -> str | None:
    """Python text of a value that can be a constexpr; None where it cannot."""
    if isinstance(value, Language):
        return value.path
    value = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple):
        parts = [literal(part) for part in value]
        return None if None in parts else f"({''.join(f'{part}, ' for part in parts)})"
    return None


# --- of a file --------------------------------------------------------------------------------


def _of_file(name: str) -> KernelSource:
    path, _, function = name.rpartition(":")
    if not path:
        raise UserKernelError(f"kernel '{name}' is not named FILE.py:FUNCTION")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        tree = ast.parse(text, path)
    except (OSError, ValueError, SyntaxError) as error:
        raise UserKernelError(f"the file of kernel '{name}' cannot be read: {error}") from None
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if function not in defined:
        raise UserKernelError(f"no function '{function}' is defined", f"Defined: {', '.join(defined)}", path)
    places = tuple((node.name, os.path.abspath(path), node.lineno) for node in defined.values())
    return KernelSource(function, text, *_parameters(defined[function]), places)


# --- of a function ----------------------------------------------------------------------------


def _of_function(fn: Callable[..., Any]) -> KernelSource:
    node, text, place = _definition(fn)
    parts, places = _used(fn, node)
    parts[f"def {node.name}"] = f"@triton.jit\n{text}"
    whole = "\n\n".join([HEAD, *parts.values()]) + "\n"
    _check_one_meaning(node.name, whole)
    return KernelSource(node.name, whole, *_parameters(node), (*places, place))


def _definition(fn: Callable[..., Any]) -> tuple[ast.FunctionDef, str, tuple[str, str, int]]:
    """The syntax of `fn`, its text from `def` on, and its place."""
    name = getattr(fn, "__name__", repr(fn))
    try:
        lines, first = inspect.getsourcelines(fn)
        file = inspect.getsourcefile(fn) or ""
        (node,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise UserKernelError(
            f"the text of kernel {name} cannot be read ({error})", "Name a kernel of a file: 'kernels.py:add'"
        ) from None
    if not isinstance(node, ast.FunctionDef):
        raise UserKernelError(f"kernel {name} is not a function that `def` defines", where=f"{file}:{first}")
    body = textwrap.dedent("".join(lines[node.lineno - 1 :]))
    return node, body, (node.name, file, first + node.lineno - 1)


def _parameters(node: ast.FunctionDef) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of all parameters, and of those with a default."""
    plain = [*node.args.posonlyargs, *node.args.args]
    defaults = plain[len(plain) - len(node.args.defaults) :]
    keywords = [arg for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults) if default is not None]
    names = (arg.arg for arg in (*plain, *node.args.kwonlyargs))
    return tuple(names), frozenset(arg.arg for arg in (*defaults, *keywords))


def _used(fn: Callable[..., Any], node: ast.FunctionDef) -> tuple[dict[str, str], tuple[tuple[str, str, int], ...]]:
    """Definitions that the text of `fn` needs before it, by what they define; and the places of the functions."""
    parts: dict[str, str] = {}
    places: dict[tuple[str, str, int], None] = {}
    for name, value in _globals(fn, node):
        if isinstance(value, TritonKernel):
            places.update(dict.fromkeys(value.source.places))
            body = value.source.text.removeprefix(HEAD).strip()
            earlier = parts.setdefault(f"def {value.__name__}", body)
            if earlier != body:
                raise UserKernelError(f"kernel {node.name} uses two kernels named '{value.__name__}'")
            if name != value.__name__:
                parts[name] = f"{name} = {value.__name__}"
        elif isinstance(value, Language):
            if name != value.path:
                parts[name] = f"{name} = {value.path}"
        else:
            text = literal(value)
            if text is None:
                raise UserKernelError(
                    f"kernel {node.name} uses '{name}', a {type(value).__name__}",
                    "A kernel can use numbers, strings, names of `tl` and functions marked triton_kernel",
                    f"{inspect.getsourcefile(fn)}:{node.lineno}",
                )
            parts[name] = f"{name} = tl.constexpr({text})"
    return parts, tuple(places)


def _check_one_meaning(kernel: str, text: str) -> None:
    """Kernels of several modules stand in one text: UserKernelError where a name means two things in it."""
    meanings: dict[str, str] = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.FunctionDef):
            names = [statement.name]
        elif isinstance(statement, ast.Assign):
            names = [n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        else:
            continue
        for name in names:
            if meanings.setdefault(name, ast.unparse(statement)) != ast.unparse(statement):
                raise UserKernelError(f"kernel {kernel} and those it uses have two meanings of '{name}'", "Rename one")


def _globals(fn: Callable[..., Any], node: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    """(name, value) of what the function names and does not define, in the order of its text; Python's own builtins
    and unknown names are left to Triton."""
    names = [n for part in (node.args, *node.body) for n in ast.walk(part) if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)} | set(_parameters(node)[0])
    space = {**fn.__globals__, **inspect.getclosurevars(fn).nonlocals}
    for name in dict.fromkeys(n.id for n in names if n.id not in own):
        if name in space:
            yield name, space[name]
