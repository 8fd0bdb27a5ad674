"""The gradient of attention: the scores are computed again from the maximum and the sum of each row.

In plain ops it is, with p the probabilities, w = m * p the weights (m: dropout or the like), o = w v the result and do
the gradient of o: dv = w^T do, dw = do v^T, dp = m * dw, delta = the sum of dp * p over a row, ds = (dp - delta) * p,
then elementwise work back through scale and masks, dq = ds k and dk = ds^T q. Since dp * p = dw * w, delta is the sum
of do * o too: a value a row that is there before the scores are. So dq is one kernel, dk and dv are another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..decision import YES, Decision, no
from ..ir.dim import Dim
from ..ir.dtype import F32
from ..ir.node import Computation, Instr
from ..ir.opcode import is_elementwise
from ..ir.rewrite import Names
from ..ir.shape import array
from .attention_form import chain_after, dependents, dot_dims
from .attention_scope import Part, Scope, width_of
from .legality import MOVES_BEFORE
from .machine import Machine
from .softmax import Softmax, folds, wide

_RULE = "attention-used"
Factors = list[tuple[str, str]]  # (opcode and place, name of the other operand), sorted


class Gradient:
    """All that uses the scores besides the forward kernel, whose `core`, `output` and product `scores` are given."""

    def __init__(
        self, scope: Scope, softmax: Softmax, dot: Instr, output: Instr, core: set[Instr], scores: Instr, weight: Instr
    ) -> None:
        self.scope, self.softmax, self.dot, self.output = scope, softmax, dot, output
        self.core, self.scores, self.weight = core, scores, weight
        self.products: list[Instr] = []
        self.delta: Instr | None = None
        self.given: Instr | None = None  # the product that is the gradient of the weights
        self.weighted: set[Instr] = set()  # what depends on a product that makes scores or their gradient
        self.parts: list[Part] = []

    def decide(self, machine: Machine, used: Mapping[Instr, Instr]) -> Decision:
        """Whether every use of a score (`used`: user -> score) is part of the gradient, and that becomes kernels."""
        decision = self._collect(used)
        if decision:
            decision = self._check_delta()
        if decision:
            decision = self._form_parts(machine)
        return decision

    # --- what there is ---
    def _collect(self, used: Mapping[Instr, Instr]) -> Decision:
        """From the uses on to the products, through elementwise work and the sum of a row."""
        scope, region = self.scope, dict[Instr, None]()
        todo = scope.ordered(used)
        while todo:
            instr = todo.pop(0)
            if instr in region or instr in self.products:
                continue
            if instr.opcode == "dot" and not instr.control:
                self.products.append(instr)
                continue
            if not self._is_step(instr):
                return no(_RULE, f"{instr.name} uses {_name(used, instr)}: the scores are in memory anyway")
            region[instr] = None
            todo.extend(scope.users[instr])
        return YES

    def _is_step(self, instr: Instr) -> bool:
        """Elementwise work, or the one sum of a row."""
        if instr is self.scope.comp.root:
            return False
        if instr.opcode != "reduce":
            return is_elementwise(instr.opcode) or instr.opcode in MOVES_BEFORE
        alone = self.delta in (None, instr) and len(instr.operands) == 2
        self.delta = instr
        return alone and instr.attrs["dimensions"] == (self.softmax.axis,) and folds(instr, "add", 0.0)

    def _check_delta(self) -> Decision:
        """The sum of a row must be that of (m * dw) * p, with the m of the weights."""
        if self.delta is None:
            return YES
        product = wide(self.delta.operands[0])
        if product.opcode != "multiply":
            return no(_RULE, f"{self.delta.name} is no sum of products with the probabilities")
        for n in (0, 1):
            mine, theirs = wide(product.operands[n]), product.operands[1 - n]
            found = self.scope.products_before(theirs)
            if mine is wide(self.softmax.quotient) and len(found) == 1:
                self.given = found[0]
                ours = _factors(self.weight, wide(self.softmax.quotient))
                if ours is None or ours != _factors(theirs, self.given):
                    return no(_RULE, f"{theirs.name} is not {self.given.name} as the weights are the probabilities")
                return YES
        return no(_RULE, f"{self.delta.name} is no sum of products with the probabilities")

    # --- what becomes of it ---
    def _form_parts(self, machine: Machine) -> Decision:
        scope = self.scope
        leaves = {self.dot, self.softmax.top, self.softmax.total, *self._optional(self.delta)}
        products = {self.scores, *self._optional(self.given)}
        self.weighted = dependents([i for i in scope.comp.instrs if i not in leaves], products)
        for group in self._groups():
            outputs = [scope.output(p, width_of(p, self._weight(p))) for p in group]
            part = Part(scope, outputs, self._core(outputs))
            decision = part.decide(machine)
            if not decision:
                return decision
            other = [leaf for leaf in scope.ordered(part.leaves()) if self._is_scores(leaf)]
            if other:
                return no(_RULE, f"{other[0].name}, of a product, is as large as the scores and is read")
            self.parts.append(part)
        decision = self._all_taken()
        return decision if not decision or self.delta is None else self._delta_order()

    def _is_scores(self, leaf: Instr) -> bool:
        """Whether it is made of a product with an element for each score."""
        count = self.softmax.quotient.shape.element_count
        return leaf.shape.element_count == count and bool(self.scope.products_before(leaf))

    def _all_taken(self) -> Decision:
        """Whether nothing else uses what the kernels compute again."""
        scope, dead = self.scope, set(self._optional(self.delta))
        for instr in reversed(scope.comp.instrs):
            if scope.users[instr] and all(u in dead for u in scope.users[instr]):
                dead.add(instr)  # it is needed for the sum of a row alone, which is computed otherwise
        outputs = {o for part in self.parts for o in part.outputs}
        inside = {m for part in self.parts for m in part.core} - outputs
        for instr in scope.ordered(inside):
            outside = [u for u in scope.users[instr] if u not in inside | outputs | self.core | dead]
            if outside or instr is scope.comp.root:
                return no(_RULE, f"{outside[0].name if outside else 'the root'} uses {instr.name}")
        return YES

    @staticmethod
    def _optional(instr: Instr | None) -> list[Instr]:
        return [] if instr is None else [instr]

    def _weight(self, product: Instr) -> Instr:
        return next(o for o in product.operands if o in self.weighted)

    def _groups(self) -> list[list[Instr]]:
        """Products that sum over keys, and those that sum over queries."""
        keys: list[Instr] = []
        queries: list[Instr] = []
        for product in self.scope.ordered(self.products):
            weight = self._weight(product)
            side = 0 if product.operands[0] is weight else 1
            summed = dot_dims(product, side)[2]
            (keys if summed == (self.softmax.axis,) else queries).append(product)
        return [group for group in (keys, queries) if group]

    def _core(self, outputs: Sequence[Instr]) -> set[Instr]:
        """What lies between the inner products and `outputs`."""
        found, todo = set(outputs), list(outputs)
        while todo:
            fresh = [o for o in todo.pop().operands if o in self.weighted and o not in found]
            found.update(fresh)
            todo.extend(fresh)
        return found

    def _delta_order(self) -> Decision:
        """The dims of the gradient of the weights and of the result must be those of the probabilities."""
        assert self.given is not None
        dims = self.softmax.quotient.shape.dims
        if self.given.shape.dims != dims or self.weight.shape.dims != dims or _has_moves(self.weight, self.softmax):
            return no(_RULE, f"{self.given.name} and {self.softmax.quotient.name} differ in their dims")
        width = dot_dims(self.dot, 1 if self.dot.operands[0] is self.weight else 0)[1]
        if len(width) != 1:
            return no(_RULE, f"{self.dot.name} has {len(width)} dims of values")
        return YES

    def fusions(self, names: Names) -> dict[Instr, Instr]:
        """What stands for each output, and for the sum of a row."""
        found: dict[Instr, Instr] = {}
        for part in self.parts:
            found.update(part.fusion(names))
        if self.delta is not None:
            found[self.delta] = self._row_sums(self.delta)
        return found

    def _row_sums(self, delta: Instr) -> Instr:
        """The sum over the values' dimension of the result times its gradient, a value a row."""
        assert self.given is not None
        axis, rank = self.softmax.axis, self.softmax.quotient.shape.rank
        side = _side_without(self.given, axis)
        batch, free, summed = dot_dims(self.given, side)
        start = len(batch) + (len(dot_dims(self.given, 0)[1]) if side else 0)
        place = dict(enumerate(batch)) | {start + n: d for n, d in enumerate(free)}
        kept = [n for n in range(rank) if n != axis]
        gradient = _moved(delta, self.given.operands[side], [*(place[n] for n in kept), *summed])
        result = _moved(delta, _undone(delta, self.output, self.dot), self._result_order(kept))
        product = _made(delta, "multiply", gradient.shape.dims, (gradient, result))
        zero = _constant_zero(delta)
        return Instr(
            delta.name,
            "reduce",
            delta.shape,
            (product, zero),
            {"dimensions": (len(kept),), "to_apply": _sum(delta)},
            delta.sources,
            delta.metadata,
        )

    def _result_order(self, kept: Sequence[int]) -> list[int]:
        """Dims of the forward product, in the order of the probabilities', then that of the values."""
        side = 0 if self.dot.operands[0] is self.weight else 1
        batch, free, _ = dot_dims(self.dot, side)
        values = len(dot_dims(self.dot, 1 - side)[1])
        start = len(batch) + (values if side else 0)
        place = {d: n for n, d in enumerate(batch)} | {d: start + n for n, d in enumerate(free)}
        width = len(batch) + (0 if side else len(free))
        return [*(place[n] for n in kept), width]


def _name(used: Mapping[Instr, Instr], instr: Instr) -> str:
    return used[instr].name if instr in used else "what is made of the probabilities"


def _has_moves(weight: Instr, softmax: Softmax) -> bool:
    """Whether more than elementwise work lies between the probabilities and the weights."""
    value = weight
    while value is not softmax.quotient:
        inner = [o for o in value.operands if _reaches(o, softmax.quotient)]
        if not is_elementwise(value.opcode) or len(inner) != 1:
            return True
        value = inner[0]
    return False


def _reaches(value: Instr, target: Instr) -> bool:
    todo, seen = [value], {value}
    while todo:
        instr = todo.pop()
        if instr is target:
            return True
        if is_elementwise(instr.opcode):
            todo.extend(o for o in instr.operands if o not in seen)
            seen.update(instr.operands)
    return False


def _factors(value: Instr, base: Instr) -> Factors | None:
    """By what `base` is multiplied to give `value`, whatever the order; None where it is not."""
    found: Factors = []
    while wide(value) is not base:
        value = wide(value)
        inner = [n for n, o in enumerate(value.operands) if _reaches(o, base)]
        if len(inner) != 1:
            return None
        (n,) = inner
        others = [o for m, o in enumerate(value.operands) if m != n]
        if value.opcode == "multiply":
            found.append(("multiply", wide(others[0]).name))
        elif value.opcode == "divide" and n == 0:
            found.append(("divide", wide(others[0]).name))
        elif value.opcode == "select" and n:
            found.append((f"select{n}", others[0].name))
        elif value.opcode == "negate":
            found.append(("negate", ""))
        elif value.opcode != "copy":
            return None
        value = value.operands[n]
    return sorted(found)


def _side_without(dot: Instr, axis: int) -> int:
    """The operand of `dot` on which dim `axis` of the result does not depend, batch dims apart."""
    batch, first = len(dot_dims(dot, 0)[0]), len(dot_dims(dot, 0)[1])
    return 1 if batch <= axis < batch + first else 0


# --- new instructions, with the name, sources and metadata of the one that they serve ---
def _made(like: Instr, opcode: str, dims: tuple[Dim, ...], operands: tuple[Instr, ...], **attrs: object) -> Instr:
    return Instr(like.name, opcode, array(F32, dims), operands, attrs, like.sources, like.metadata)


def _moved(like: Instr, value: Instr, order: Sequence[int]) -> Instr:
    """`value` in f32, its dims in another order."""
    if value.shape.element_type != F32:
        value = _made(like, "convert", value.shape.dims, (value,))
    if list(order) == list(range(len(order))):
        return value
    dims = tuple(value.shape.dims[d] for d in order)
    return _made(like, "transpose", dims, (value,), dimensions=tuple(order))


def _undone(like: Instr, output: Instr, dot: Instr) -> Instr:
    """What `dot` gives, from `output`, which moves and conversions made of it."""
    found, chain = chain_after(output)
    assert found is dot
    value = output
    for move in chain:
        source = move.operands[0]
        shape = source.shape
        if move.opcode == "transpose":
            order = move.attrs["dimensions"]
            back = tuple(order.index(d) for d in range(len(order)))
            value = Instr(
                like.name,
                "transpose",
                array(value.shape.element_type, shape.dims),
                (value,),
                {"dimensions": back},
                like.sources,
            )
        elif move.opcode in ("reshape", "bitcast"):
            value = Instr(like.name, "reshape", array(value.shape.element_type, shape.dims), (value,), {}, like.sources)
    return value


def _constant_zero(like: Instr) -> Instr:
    return wide(like.operands[1])


def _sum(like: Instr) -> Computation:
    body = like.attrs["to_apply"]
    assert isinstance(body, Computation)
    return body
