"""Which nodes of a graph are compiled together, and for every other node: why not.

candidates (support) -> colours (device, scope, conditions under which a node runs) -> merging without cycles ->
declustering (what has no business in a cluster) -> size rules. Constants take no part in merging: each cluster gets
copies of those that it reads. Variables are read before and written after a cluster, so an order between a write
and a later read is an ordinary path through a node that is no candidate, and never closes a cycle.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tensorflow.python.eager import context

from ... import flags
from ...decision import Decision, no
from .. import devices
from ..graph import deadness, host_memory, list_groups
from ..graph import view as graphs
from ..graph.op_groups import SHAPE_OPS
from ..graph.view import Graph, attr
from .compile_time_constants import needed_ports
from .copied_constants import producers
from .merging import NO_COLOUR, merge
from .support import LISTS_LEAVE, Checker, resolve_ops

CLUSTERED_ATTR = "_tfxla_clustered"
"""Set on every node that a clustering made or refused to touch again: a second run leaves these alone."""

_FREE = frozenset({"Const", "Identity"})
_WHOLE = frozenset({"If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase"})


@dataclass(frozen=True)
class Options:
    """What the flags ask for. `global_jit`: automatic clustering of nodes on the CPU, `device_jit`: on other devices;
    where that is off only nodes that a `jit_scope` marks are clustered."""

    global_jit: bool = True
    device_jit: bool = True
    min_size: int = 4
    max_size: int = 2**31 - 1
    fuel: Fuel | None = None
    only: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    deadness: bool = True

    @classmethod
    def from_flags(cls) -> Options:
        """Raises InvalidArgumentError for an unknown op in --tf_xla_ops_to_cluster."""
        level, only = auto_jit_level()
        words = [w.strip() for w in str(flags.get("tf_xla_cluster_exclude_ops")).split(",")]
        return cls(
            global_jit=level > 0 and bool(flags.get("tf_xla_cpu_global_jit")),
            device_jit=level > 0,
            min_size=flags.get("tf_xla_min_cluster_size"),
            max_size=flags.get("tf_xla_max_cluster_size"),
            fuel=_process_fuel,
            only=only,
            excluded=frozenset(filter(None, words)),
            deadness=not flags.get("tf_xla_disable_deadness_safety_checks_for_debugging"),
        )

    def is_automatic(self, device: str) -> bool:
        """Are nodes placed so clustered without a mark?"""
        return self.global_jit if devices.place_of(device).target == devices.HOST else self.device_jit


def auto_jit_level() -> tuple[int, frozenset[str] | None]:
    """(level, ops that may be clustered or None) of --tf_xla_auto_jit and --tf_xla_ops_to_cluster."""
    text = str(flags.get("tf_xla_auto_jit"))
    only = str(flags.get("tf_xla_ops_to_cluster"))
    if text == "fusible":
        return 1, resolve_ops(only or "FUSIBLE")
    if text.startswith("single-gpu("):
        text = text.removeprefix("single-gpu(").removesuffix(")")
    level = int(text or 0)
    if level == 0:
        level = 1 if context.context().optimizer_jit else 0
    return level, resolve_ops(only)


class Fuel:
    """How many more operations this process may cluster (--tf_xla_clustering_fuel)."""

    def __init__(self) -> None:
        self.used = 0
        self.lock = threading.Lock()

    def take(self) -> bool:
        with self.lock:
            self.used += 1
            return self.used <= flags.get("tf_xla_clustering_fuel")


_process_fuel = Fuel()
_numbers = itertools.count()


@dataclass
class Cluster:
    """`members`: positions, producers first. `constants`: (producer, port) outside whose values compiling needs."""

    name: str
    members: list[int]
    constants: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Clustering:
    """`clusters` in topological order of their first members; `decisions[i]`: why node i is in none.

    `refused`: reason -> how many merges it prevented. Const nodes have no decision: clusters copy them.
    """

    clusters: list[Cluster]
    decisions: dict[int, Decision]
    refused: dict[str, int] = field(default_factory=dict)

    def cluster_of(self) -> dict[int, Cluster]:
        return {i: cluster for cluster in self.clusters for i in cluster.members}


def find_clusters(
    graph: Graph,
    checker: Checker,
    options: Options,
    preserve: Collection[str] = (),
    name: Callable[[], str] | None = None,
) -> Clustering:
    """Cluster a graph. `preserve`: names of nodes that must stay as they are (feeds, kept ops).

    `name` makes cluster names (default as --tf_xla_deterministic_cluster_names says).
    """
    order = graph.topological()
    decisions = _candidates(graph, order, checker, options, frozenset(preserve))
    lists = _list_groups(graph, decisions)
    while True:
        clustering = _clustering(graph, order, dict(decisions), options)
        where = {i: number for number, cluster in enumerate(clustering.clusters) for i in cluster.members}
        torn = [group for group in lists if len({where.get(i) for i in group}) > 1]
        if not torn:
            break
        decisions.update((i, LISTS_LEAVE) for group in torn for i in group)
        lists = [group for group in lists if group not in torn]
    make_name = name or _namer(graph)
    for cluster in clustering.clusters:
        cluster.name = make_name()
    return clustering


def _list_groups(graph: Graph, decisions: dict[int, Decision]) -> list[list[int]]:
    """Candidates that one cluster must hold, for the lists that they hand to each other. What cannot be held by any
    gets its decision."""
    groups = list_groups.of_nodes(graph.nodes, graph.op_def, graph.functions)
    leaving = list_groups.not_held(graph.nodes, groups, lambda node: graph.index[node.name] not in decisions)
    for name in leaving - {list_groups.OUTSIDE}:
        if graph.nodes[graph.index[name]].op != "Const":
            decisions.setdefault(graph.index[name], LISTS_LEAVE)
    return [[graph.index[name] for name in group] for group in groups if leaving.isdisjoint(group)]


def _clustering(graph: Graph, order: list[int], decisions: dict[int, Decision], options: Options) -> Clustering:
    """Clusters, without names, of what `decisions` leaves."""
    sources = _merge_sources(graph)
    colours = _colours(graph, order, decisions, options)
    weights = [0 if colours[i] == NO_COLOUR else 1 for i in range(len(graph))]
    merge_order = order + list(range(len(graph), len(sources)))
    padding = len(sources) - len(graph)
    merged = merge(
        sources,
        _frame_order(sources, merge_order) if padding else order,
        colours + [NO_COLOUR] * padding,
        weights + [0] * padding,
        options.max_size,
    )
    groups: dict[int, list[int]] = {}
    for i in order:
        if colours[i] != NO_COLOUR:
            groups.setdefault(merged.cluster[i], []).append(i)
    neighbours = _Neighbours.of(sources[: len(graph)])
    return _finish(graph, neighbours, list(groups.values()), decisions, options, merged.refused)


_same_hash: Counter[str] = Counter()


def _namer(graph: Graph) -> Callable[[], str]:
    """Makes names that are unique in the process: `cluster_N`, or `cluster_HASH_N` where the flag asks for names
    that depend on the function alone (N counts the clusters of functions with that hash)."""
    if not flags.get("tf_xla_deterministic_cluster_names"):
        return lambda: f"cluster_{next(_numbers)}"
    text = "\n".join(sorted(f"{node.name} {node.op} {list(node.input)}" for node in graph.nodes))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]

    def name() -> str:
        _same_hash[digest] += 1
        return f"cluster_{digest}_{_same_hash[digest] - 1}"

    return name


def _candidates(
    graph: Graph, order: list[int], checker: Checker, options: Options, preserve: frozenset[str]
) -> dict[int, Decision]:
    """The nodes that may not be clustered, each with its reason; Const nodes are never in it."""
    found: dict[int, Decision] = {}
    for i in order:
        node = graph.nodes[i]
        if node.op == "Const":
            continue
        decision = _eligible(node, checker, options, preserve)
        if decision and options.fuel is not None and not options.fuel.take():
            decision = no("fuel", "--tf_xla_clustering_fuel is used up")
        if not decision:
            found[i] = decision
    on_cycle = set(range(len(graph))) - set(order)
    found.update((i, no("cycle", "lies on a cycle of the graph")) for i in on_cycle)
    return found


def _eligible(node: graphs.NodeDef, checker: Checker, options: Options, preserve: frozenset[str]) -> Decision:
    if CLUSTERED_ATTR in node.attr:
        return no("done", "made or looked at by an earlier clustering of this graph")
    if not options.is_automatic(node.device) and attr(node, "_XlaCompile") is not True:
        return no("not_marked", "automatic clustering is off and no jit_scope marks it")
    decision = checker.node(node)
    if decision and node.name in preserve:
        return no("preserved", "the caller feeds it or asked to keep it")
    return decision


def _merge_sources(graph: Graph) -> list[list[int]]:
    """Producers of each node for merging: constants give way to what they wait for, v1 loops are one node each.

    Loops: an Enter feeds its frame's node (appended behind the graph's), an Exit's users depend on that node.
    """
    frames: dict[str, int] = {}
    ops = [node.op for node in graph.nodes]
    sources: list[list[int]] = [[] for _ in graph.nodes]
    exits = _exit_frames(graph, frames) if not graphs.EXITS.isdisjoint(ops) else {}
    sources.extend([] for _ in frames)
    for i in range(len(graph)):
        found: dict[int, None] = {}
        for source in producers(graph, i):
            if source in exits:
                found[exits[source]] = None
            elif ops[source] not in graphs.NEXT_ITERATIONS:
                found[source] = None
        if ops[i] in graphs.ENTERS and frames:
            sources[frames[deadness.frame_of(graph, i)]].extend(found)
        else:
            sources[i] = list(found)
    return sources


def _exit_frames(graph: Graph, positions: dict[str, int]) -> dict[int, int]:
    """Exit node -> its frame's node. Fills `positions`: frame name -> that node, behind the graph's."""
    frames = deadness.frames(graph, graph.topological())
    for i, node in enumerate(graph.nodes):
        if node.op in graphs.ENTERS:
            positions.setdefault(frames[i], len(graph) + len(positions))
    return {
        i: positions[frames[i]]
        for i, node in enumerate(graph.nodes)
        if node.op in graphs.EXITS and frames[i] in positions
    }


def _frame_order(sources: list[list[int]], nodes: list[int]) -> list[int]:
    """A topological order of the graph with its frame nodes."""
    users: list[list[int]] = [[] for _ in sources]
    waiting = [0] * len(sources)
    for i, found in enumerate(sources):
        unique = dict.fromkeys(found)
        waiting[i] = len(unique)
        for source in unique:
            users[source].append(i)
    order = [i for i in nodes if not waiting[i]]
    for i in order:
        for user in users[i]:
            waiting[user] -= 1
            if not waiting[user]:
                order.append(user)
    return order


def _colours(graph: Graph, order: list[int], decisions: dict[int, Decision], options: Options) -> list[int]:
    """Nodes that may share a cluster have equal colours; NO_COLOUR: no candidate."""
    control_flow = options.deadness and any(node.op in graphs.CONTROL_FLOW for node in graph.nodes)
    conditions = deadness.analyse(graph, order) if control_flow else None
    numbers: dict[object, int] = {}
    colours = [NO_COLOUR] * len(graph)
    for i in order:
        node = graph.nodes[i]
        if node.op == "Const" or i in decisions:
            continue
        scope_attr = "_XlaInternalScope" if options.is_automatic(node.device) else "_XlaScope"
        key = (_place(node), attr(node, scope_attr), conditions[i] if conditions else None)
        colours[i] = numbers.setdefault(key, len(numbers))
    return colours


def _place(node: graphs.NodeDef) -> tuple[str, int]:
    """(type, index) of a candidate's device, which is a local one; no device counts as CPU 0."""
    place = devices.place_of(node.device)
    return place.target, place.number


@dataclass(frozen=True)
class _Neighbours:
    """Producers and users of each node as merging saw them: through constants, which clusters copy."""

    sources: list[list[int]]
    users: list[list[int]]

    @classmethod
    def of(cls, sources: list[list[int]]) -> _Neighbours:
        users: list[list[int]] = [[] for _ in sources]
        for i, found in enumerate(sources):
            for source in found:
                if source < len(sources):
                    users[source].append(i)
        return cls(sources, users)


def _finish(
    graph: Graph,
    neighbours: _Neighbours,
    groups: list[list[int]],
    decisions: dict[int, Decision],
    options: Options,
    refused: dict[str, int],
) -> Clustering:
    clusters: list[Cluster] = []
    for members in groups:
        kept = _decluster(graph, neighbours, members, decisions)
        reason = _worth_it(graph, kept, options)
        if not reason:
            decisions.update((i, reason) for i in kept)
            continue
        clusters.append(Cluster("", kept, needed_ports(graph, kept)[1]))
    return Clustering(clusters, decisions, refused)


def _worth_it(graph: Graph, members: list[int], options: Options) -> Decision:
    size = sum(graph.nodes[i].op not in _FREE for i in members)
    forced = any(graph.nodes[i].op in _WHOLE or attr(graph.nodes[i], "_XlaCompile") is True for i in members)
    if size >= options.min_size or (forced and size):
        return Decision(True)
    operations = f"{size} operation{'s' * (size != 1)}"
    return no(
        "too_small", f"its cluster would have {operations}, fewer than --tf_xla_min_cluster_size={options.min_size}"
    )


def _decluster(graph: Graph, neighbours: _Neighbours, members: list[int], decisions: dict[int, Decision]) -> list[int]:
    """Take out, from the edges inwards, what a cluster should not hold. Taking out a first or last node is safe:
    no path can lead out of the cluster and back through it."""
    inside = set(members)
    changed = True
    while changed:
        must_be_known = needed_ports(graph, inside)[0]
        leaving = [(i, reason) for i in inside if not (reason := _stays(graph, neighbours, i, inside, must_be_known))]
        changed = bool(leaving)
        for i, reason in leaving:
            inside.discard(i)
            decisions[i] = reason
    return [i for i in members if i in inside]


def _stays(graph: Graph, neighbours: _Neighbours, i: int, inside: set[int], must_be_known: set[int]) -> Decision:
    op = graph.nodes[i].op
    first = inside.isdisjoint(neighbours.sources[i])
    last = inside.isdisjoint(neighbours.users[i])
    if (first or last) and host_memory.on_host(graph, i):
        return no("host_memory", "TensorFlow computes it on the host, where its inputs or its results are")
    if op == "NoOp" and (first or last):
        return no("control_only", "only orders other nodes, at the edge of the cluster")
    if op in SHAPE_OPS and last:
        return no("shape_for_others", "its result, a shape, is used outside the cluster only")
    if not first or i not in must_be_known or op in SHAPE_OPS:
        return Decision(True)
    if all(graph.nodes[s].op == "Const" for s, _ in graph.data[i]):
        return Decision(True)
    return no("constant_producer", "computes a value needed when compiling, from values known only at run time")
