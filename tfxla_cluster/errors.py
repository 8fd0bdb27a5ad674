"""The error catalogue: what was wrong, where in the user's program, what to do.

One class a mistake. `exit_code` is what the command-line tools end with (documented in README).
"""

from __future__ import annotations


class TfxlaError(Exception):
    """Base: `message` says what was wrong, `remedy` what to do, `where` the user's file:line if known."""

    exit_code = 1
    ag_pass_through = True
    """AutoGraph hands it on as it is where a function is being traced, and makes no StagingError of it."""

    def __init__(self, message: str, remedy: str = "", where: str = "") -> None:
        self.message, self.remedy, self.where = message, remedy, where
        super().__init__(self.render())

    def render(self) -> str:
        """One paragraph: `[where: ]message[. remedy]`."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}. {self.remedy}" if self.remedy else text


class UsageError(TfxlaError):
    """A command line or an API argument is wrong."""

    exit_code = 2


class FlagError(UsageError):
    """An unknown flag or a bad value."""


class InputFileError(TfxlaError):
    """A file or directory is missing, unreadable, corrupt or of another kind."""

    exit_code = 3


class ParseError(InputFileError):
    """HLO text or a proto does not parse; `where` is file:line:column."""


class VerifierError(TfxlaError):
    """A module breaks a labelled rule of the IR; `rule` is the label."""

    exit_code = 4

    def __init__(self, rule: str, message: str, remedy: str = "", where: str = "") -> None:
        self.rule = rule
        super().__init__(f"({rule}) {message}", remedy, where)


class UnsupportedError(TfxlaError):
    """An instruction, dtype or program this package does not compile yet."""

    exit_code = 5


class RecompileLimitError(UnsupportedError):
    """A function has all the executables that it may have (--tfxla_recompile_limit); `key`: the same for all that is
    refused for one function, so that it is said once."""

    def __init__(self, message: str, remedy: str, where: str, key: str) -> None:
        self.key = key
        super().__init__(message, remedy, where)


class TooLargeError(UnsupportedError):
    """Kernels, those of `symbols`, take more of the memory of a program than the machine has."""

    def __init__(self, message: str, symbols: frozenset[str]) -> None:
        self.symbols = symbols
        super().__init__(message)


class TuningError(TfxlaError):
    """Results of tuning that are asked for, a file or a kernel's, are not there."""

    exit_code = 3


class RankError(TfxlaError):
    """Another worker of a strategy has ended, is late or cannot be asked (--tfxla_compiler_collectives)."""


class LoweringError(TfxlaError):
    """TensorFlow's own bridge does not lower a function (stock XLA refuses it too); `op` and `node` if known."""

    exit_code = 5

    def __init__(self, message: str, remedy: str = "", where: str = "", op: str = "", node: str = "") -> None:
        self.op, self.node = op, node
        super().__init__(message, remedy, where)


class NoConstantError(LoweringError):
    """A value that lowering needs is computed at run time."""


class UserKernelError(LoweringError):
    """A user's own Triton kernel cannot be compiled or called so; nothing else can stand in for it."""


class ConstraintError(LoweringError):
    """What the program says about its sizes (mark_dynamic, jit's `dynamic`) does not hold for it."""


class DataError(TfxlaError):
    """The program's data are not what an op takes, as an index out of range; `node`: the TensorFlow node of that op."""

    def __init__(self, message: str, remedy: str = "", where: str = "", node: str = "") -> None:
        self.node = node
        super().__init__(message, remedy, where)


class UninitializedError(TfxlaError):
    """A variable that a compiled function takes has no value yet."""


class OutputError(TfxlaError):
    """A directory or file could not be written (permissions, full disk)."""

    exit_code = 6


class VersionError(TfxlaError):
    """An installed library has a version this package does not work with."""

    exit_code = 7


class InternalError(TfxlaError):
    """A pass lied, a kernel could not be built: a bug of this package; the message asks for the dump."""

    exit_code = 70


class KernelError(InternalError):
    """Kernels, those of `symbols`, are not compiled by the compiler that they were written for: in the form that they
    have, another may do."""

    def __init__(self, message: str, symbols: frozenset[str]) -> None:
        self.symbols = symbols
        super().__init__(message)
