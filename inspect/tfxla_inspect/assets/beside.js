"use strict";
// A graph, and another one of the report beside it: what is chosen in one is looked for in the other.
// others: [{t, page, b}]: all graphs of the report.
function showGraphs(box, data, options) {
  const {el} = report;
  const left = el("div", {class: "half"}), right = el("div", {class: "half", hidden: ""});
  const choice = el("select", {"aria-label": "Another graph beside it", onchange: e => beside(options.others[Number(e.target.value)])},
    el("option", {value: -1}, "beside it: none"),
    options.others.map((other, n) => el("option", {value: n}, report.middle(other.t, 60))));
  let second = null;
  box.replaceChildren(el("div", {class: "halves"}, left, right));
  const first = showGraph(left, data, {...options, extra: options.others.length > 1 ? choice : null, chosen: id => follow(second, data, id)});
  return first;

  async function beside(other) {
    second = null;
    right.hidden = !other;
    if (!other) return;
    const own = await report.json(other.b);
    second = showGraph(right, own, {page: other.page, title: other.t, chosen: id => follow(first, own, id)});
  }

  // The node of the other graph with that name, else of the same TensorFlow node.
  function follow(view, source, id) {
    if (view) view.match(source.nodes.name[id], source.nodes.note[id].split(", ").filter(Boolean));
  }
}
