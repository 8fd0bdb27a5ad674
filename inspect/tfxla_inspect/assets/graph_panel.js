"use strict";
// The panel beside a graph: the colours, or all about the chosen node. `graph`: what it asks of the drawing (graph.js).
function graphPanel(panel, data, page, graph) {
  const {el} = report, N = data.nodes;

  function node(id) {
    return el("button", {class: "go", title: N.name[id], onclick: () => graph.show(id)},
      el("i", {style: "background:" + graph.colours.fill(id)}), report.middle(N.label[id], 34), el("small", {}, ` ${N.kind[id]} ${graph.colours.text(id)}`));
  }

  function list(title, ids) {
    return ids.length ? [el("h3", {}, `${title} (${ids.length})`), el("div", {class: "list"}, ids.slice(0, 60).map(node),
      ids.length > 60 ? el("p", {}, `and ${ids.length - 60} more`) : null)] : [];
  }

  function details(id) {
    const facts = [["Kind", N.kind[id]], [data.words.detail, N.detail[id]], [data.words.group, data.groups[N.group[id]].t],
      ...(data.measures || []).map(m => [m.t, m.v[id] === null || m.v[id] === undefined ? "" : report.measure(m.v[id], m.unit)])].filter(([, v]) => v);
    const links = (data.tabs || []).map(([title, tab]) => el("a", {href: `#${page}/${tab}/${encodeURIComponent(tab === "kernels" || tab === "text" ? N.name[id] : "?" + N.name[id])}`}, title));
    report.put(panel, el("button", {class: "close", title: "Close (Escape)", onclick: graph.close}, "×"),
      el("h2", {}, N.name[id]), el("dl", {}, facts.map(([t, v]) => [el("dt", {}, t), el("dd", {}, v)])),
      N.where[id] ? el("p", {class: "source", title: "The user's line"}, N.where[id]) : null,
      el("p", {class: "links"}, links, N.body[id] && data.bodies[N.body[id]] ? el("button", {onclick: () => graph.openBody(N.body[id])}, "open its body") : null,
        el("button", {onclick: () => graph.neighbourhood(id)}, "neighbourhood")),
      graph.opens(id) ? el("p", {}, el("button", {onclick: () => graph.unfold(id)}, graph.scopes.isOpen(id) ? "close it" : "open it here")) : null,
      ...list("Holds", graph.scopes.members(id) || []),
      ...(N.note[id] ? [el("h3", {}, data.words.note), el("p", {class: "origin"}, N.note[id])] : []),
      ...list("Inputs", [...new Set(N.ins[id])]), ...list("Used by", graph.usersOf(id)));
  }

  function legend() {
    if (graph.colours.measure()) { byMeasure(); return; }
    const rows = data.groups.map((g, n) => [g, n]).filter(([g]) => g.n).sort((a, b) => b[0].n - a[0].n);
    report.put(panel, el("h2", {}, data.words.group), el("p", {class: "hint"}, data.words.hint), only(), el("div", {class: "list"}, rows.slice(0, 300).map(([g, n]) =>
      el("button", {class: "go" + (n === graph.lit() ? " on" : ""), onclick: () => graph.light(n)},
        el("i", {style: "background:" + graph.colours.ofGroup(n)}), g.t, el("small", {}, " " + report.format(g.n))))));
  }

  // The scale of a measure, and the nodes that have most of it.
  function byMeasure() {
    const range = graph.colours.range();
    report.put(panel, el("h2", {}, `By ${graph.colours.measure().t}`), range ? el("p", {class: "scale"}, el("span", {}, range[0]),
      graph.colours.scale().map(c => el("i", {style: "background:" + c})), el("span", {}, range[1])) : el("p", {class: "hint"}, "Unknown of every node."),
      el("p", {class: "hint"}, `${graph.colours.measure().note} Grey: unknown, or not a step of its own.`), el("div", {class: "list"}, graph.colours.first(60).map(node)));
  }

  // With a group lit: a button that draws its nodes alone.
  function only() {
    const lit = graph.lit(), ids = lit < 0 ? [] : N.group.flatMap((g, id) => g === lit ? [id] : []);
    if (!ids.length || ids.length > 1500) return null;
    return el("p", {}, el("button", {onclick: () => graph.draw(ids, data.groups[lit].t)}, `only ${data.groups[lit].t}`));
  }

  return {details, legend};
}
