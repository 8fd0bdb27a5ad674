"""The rules of the IR, labelled: one table. The verifier and shape inference cite the labels.

A rule about sizes is kept only where it is proven for all values that they may have (`size_proofs`).

S structure, A attributes and shapes, E elementwise, V moves of values, R reductions and windows, D contractions,
F control flow, O other opcodes.
"""

from __future__ import annotations

from typing import NoReturn

from ..errors import VerifierError

RULES: dict[str, str] = {
    "S1": "an operand belongs to the computation and comes before its user",
    "S2": "the root is an instruction of the computation",
    "S3": "parameters are numbered 0 to n-1, each once",
    "S4": "names of instructions are unique in their computation",
    "S5": "names of computations are unique in the module",
    "S6": "a control predecessor belongs to the computation and comes before",
    "S7": "the opcode is in the table",
    "S8": "the number of operands fits the opcode",
    "S9": "an alias names an output and a parameter that exist and agree in shape",
    "S10": "a size has one sample, and one bound or range, in the whole module",
    "S11": "a size of an input is a dimension, by itself, of a parameter of the entry",
    "A1": "an instruction has only attributes of its opcode",
    "A2": "an instruction has all required attributes of its opcode",
    "A3": "the result's shape is what the operands and attributes imply",
    "A4": "an operand is an array (a tuple, a token) where the opcode wants one",
    "A5": "no size of a result is negative",
    "E1": "operands of an elementwise instruction have the same dimensions",
    "E2": "operands of an elementwise instruction have the same element type",
    "E3": "the element type is one the opcode works on",
    "V1": "broadcast names, in rising order, the result dimension of each operand dimension, of equal size",
    "V2": "reshape keeps the number of elements and the element type",
    "V3": "transpose names each dimension once",
    "V4": "slice has a row a dimension with 0 <= start <= limit <= size and a positive stride",
    "V5": "pad has a row a dimension, interior padding is not negative, the pad value is a scalar of the type",
    "V6": "concatenate's operands agree in all dimensions but the one it names",
    "V7": "dynamic-slice and dynamic-update-slice have one scalar integer index a dimension, sizes that fit",
    "V8": "reverse and iota name dimensions that exist, each once",
    "V9": "gather's and scatter's dimension numbers fit their operands",
    "V10": "bitcast-convert keeps the number of bits; a width change takes the last dimension",
    "R1": "reduce has as many initial values (scalars of the operands' types) as operands",
    "R2": "a called computation takes and returns what its caller's operands and result say",
    "R3": "reduced dimensions exist, each once",
    "R4": "a window has a dimension for each of the operand's, sizes, strides and dilations are positive",
    "R5": "sort names one dimension that exists and its comparator returns pred",
    "D1": "dot's dimension numbers are distinct, exist, and contracting and batch sizes agree",
    "D2": "convolution's dimension numbers name each dimension once",
    "D3": "convolution's feature and batch group counts divide what they group, and features agree",
    "F1": "while's body and condition take the loop state; the body returns it, the condition a pred",
    "F2": "conditional has a pred with two branches or an s32 with at least one, and an argument for each",
    "F3": "call, map and fusion give their computation as many arguments as it has parameters, of its shapes",
    "F4": "get-tuple-element's index exists",
    "O1": "batch-norm's scale, offset, mean and variance are vectors of the feature dimension",
    "O2": "cholesky and triangular-solve work on square matrices of floats",
    "O3": "fft's lengths fit the innermost dimensions and its types fit the transform",
    "O4": "a dimension number of get- or set-dimension-size exists",
    "O5": "rng-bit-generator's state is u64[2] or u64[3] (any size for rng_default)",
    "O6": "a constant's literal has the shape of the instruction",
    "O7": "topk takes no more of the last dimension than there is, and gives its k best and their s32 positions",
    "O8": "a custom call of LAPACK has the operands and results of its routine",
}


def broken(rule: str, message: str) -> NoReturn:
    """Raise VerifierError for `rule`."""
    raise VerifierError(rule, f"{message}; rule: {RULES[rule]}")


def check(condition: bool, rule: str, message: str) -> None:
    """Raise VerifierError for `rule` unless `condition`."""
    if not condition:
        broken(rule, message)
