"use strict";
// One search over all pages: nodes of graphs, kernels, the user's lines. What a block holds is listed once, when it is
// first searched; a newer query ends an older one.
function searchEverywhere(site, box) {
  const {el} = report, MOST = 8, listed = new Map();
  let latest = 0, timer = 0;

  // [text searched, route, what is shown] of each entry of a tab.
  async function entries(page, tab) {
    if (!listed.has(tab.b)) listed.set(tab.b, report.json(tab.b).then(data => {
      const route = name => `#${page.id}/${tab.id}/${encodeURIComponent(name)}`;
      if (tab.k === "graph") {
        const N = data.nodes;
        return N.name.map((name, id) => [`${name} ${N.kind[id]} ${N.note[id]} ${N.where[id]}`.toLowerCase(), route(name), `${name} ${N.kind[id]}`]);
      }
      return (data.table || data).rows.map(cells => [cells.map(report.plain).join(" ").toLowerCase(), route(report.plain(cells[0])), report.plain(cells[0])]);
    }));
    return listed.get(tab.b);
  }

  async function run(query, turn) {
    const low = query.toLowerCase(), parts = [];
    for (const page of site) for (const tab of page.tabs) {
      if (!tab.b || !(tab.id === "graph" || tab.id === "kernels" || tab.id === "lines")) continue;
      const found = (await entries(page, tab)).filter(([text]) => text.includes(low));
      if (turn !== latest) return;
      if (!found.length) continue;
      parts.push(el("section", {}, el("h2", {}, `${page.title}: ${tab.t} (${report.format(found.length)})`),
        found.slice(0, MOST).map(([, href, text]) => el("a", {href, title: text}, report.middle(text, 44))),
        found.length > MOST ? el("a", {href: `#${page.id}/${tab.id}/${encodeURIComponent("?" + query)}`}, `all ${report.format(found.length)}`) : null));
      box.replaceChildren(...parts.slice(0, 60));
    }
    if (!parts.length) box.replaceChildren(el("p", {class: "hint"}, `No instruction, node, kernel or line has '${query}'.`));
  }

  return query => {
    const turn = ++latest;
    clearTimeout(timer);
    if (query.length < 2) box.replaceChildren();
    else timer = setTimeout(() => run(query, turn), 200);
  };
}
