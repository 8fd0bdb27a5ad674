"use strict";
// Pages, tabs, keys. The site block lists the pages: [{id, group, title, note, tabs: [{id, t, k, b, ...}]}].
(async () => {
  const {el} = report;
  const start = document.getElementById("start"), main = document.getElementById("page");
  const list = document.getElementById("pages"), filter = document.getElementById("filter");
  const site = await report.json(document.body.dataset.site);
  const pages = new Map(site.map(page => [page.id, page]));
  const graphs = site.flatMap(page => page.tabs.filter(t => t.k === "graph" && t.b).map(t => ({t: `${page.title}: ${t.t}`, page: page.id, b: t.b})));
  let shown = {page: "", tab: ""}, viewer = null;

  const kinds = {
    html: async (box, tab) => { box.innerHTML = await report.text(tab.b); },
    table: async (box, tab, item) => showTable(box, await report.json(tab.b), {item}),
    text: async (box, tab, item, page) => showText(box, await report.text(tab.b), {language: tab.lang, item, tail: tab.id === "text" ? links(page) : null}),
    graph: async (box, tab, item, page) => showGraphs(box, await report.json(tab.b), {item, page: page.id, others: graphs}),
    kernels: async (box, tab, item) => showKernels(box, await report.json(tab.b), {item}),
    note: async (box, tab) => box.replaceChildren(el("p", {class: "note"}, tab.m)),
  };

  // Behind the chosen line of a module's text: where else its instruction stands.
  function links(page) {
    return (line, before, chosen) => {
      const name = chosen && /^\s*(?:ROOT )?%?([\w.-]+) = /.exec(line);
      if (!name) return null;
      const to = (tab, text) => page.tabs.some(t => t.id === tab && t.b) ? [" ", el("a", {href: `#${page.id}/${tab}/${encodeURIComponent(name[1])}`}, text)] : [];
      return el("span", {class: "origin-line"}, "  →", to("kernels", "kernel"), to("graph", "graph"));
    };
  }

  function drawList() {
    const test = report.matcher(filter.value);
    const wanted = site.filter(page => test(page.title) || test(page.group));
    const groups = new Map();
    for (const page of wanted.slice(0, 500)) {
      if (!groups.has(page.group)) groups.set(page.group, []);
      groups.get(page.group).push(page);
    }
    list.replaceChildren(...[...groups].map(([name, members]) => el("section", {}, el("h2", {}, name), members.map(page =>
      el("a", {href: "#" + page.id, title: page.title, class: page.id === shown.page ? "on" : ""}, report.middle(page.title, 40),
        page.note ? el("small", {}, page.note) : null)))),
      ...(wanted.length > 500 ? [el("p", {class: "hint"}, `and ${wanted.length - 500} more: filter`)] : []));
  }

  async function show() {
    const {page: id, tab: wanted, item} = report.route();
    const page = pages.get(id);
    start.hidden = Boolean(page);
    main.hidden = !page;
    if (!page) { shown = {page: "", tab: ""}; drawList(); scrollTo(0, 0); return; }
    const tab = page.tabs.find(t => t.id === wanted) || page.tabs[0];
    if (shown.page === page.id && shown.tab === tab.id && viewer && item) { viewer.open(item); return; }
    shown = {page: page.id, tab: tab.id};
    drawList();
    const box = el("div", {class: "view view-" + tab.k});
    main.replaceChildren(el("header", {}, el("h1", {}, page.title), el("div", {role: "tablist", class: "tabs"},
      page.tabs.map(t => el("a", {role: "tab", class: t.k === "note" ? "empty" : null, href: `#${page.id}/${t.id}`, "aria-selected": String(t === tab)}, t.t,
        t.n === undefined ? null : el("small", {}, report.format(t.n)))))), box);
    box.append(el("p", {class: "note"}, "Opening…"));
    viewer = null;
    try {
      viewer = await kinds[tab.b || tab.k === "note" ? tab.k : "note"](box, tab, item, page) || null;
    } catch (error) {
      box.replaceChildren(el("p", {class: "note"}, "This page could not be shown: " + error.message));
    }
  }

  function step(by) {
    const page = pages.get(shown.page);
    if (!page) return;
    const at = page.tabs.findIndex(t => t.id === shown.tab);
    report.go(page.id, page.tabs[(at + by + page.tabs.length) % page.tabs.length].id);
  }

  addEventListener("hashchange", show);
  const search = searchEverywhere(site, document.getElementById("found"));
  filter.addEventListener("input", () => { drawList(); search(filter.value); });
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { if (event.key === "Escape") event.target.blur(); return; }
    const act = {"/": () => (viewer && viewer.input || filter).focus(), "[": () => step(-1), "]": () => step(1), h: () => report.go("start"), s: () => { filter.focus(); filter.select(); }}[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => { d.open = true; }));
  await show();
  document.body.classList.add("ready");
})();
