"""Whether a rewritten graph can run: TensorFlow drops one with a cycle, with a warning that programs do not see."""

from __future__ import annotations

from tensorflow.core.framework import graph_pb2


def is_acyclic(graph_def: graph_pb2.GraphDef) -> bool:
    """Has the graph no cycle but loops through NextIteration?"""
    names = {node.name for node in graph_def.node}
    back = {node.name for node in graph_def.node if node.op in ("NextIteration", "RefNextIteration")}
    waiting: dict[str, int] = {}
    users: dict[str, list[str]] = {}
    for node in graph_def.node:
        origins = {text.lstrip("^").split(":")[0] for text in node.input} & names - back
        waiting[node.name] = len(origins)
        for origin in origins:
            users.setdefault(origin, []).append(node.name)
    ready = [name for name, open_inputs in waiting.items() if not open_inputs]
    done = 0
    while ready:
        done += 1
        for user in users.get(ready.pop(), ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return done == len(names)
