"use strict";
// A table of any length: only the rows in view exist. data = {cols: [{t, w, k}], rows: [[cell, ...], ...], group},
// k: "n" number, "b" bytes, "" text; group: the column by which rows are grouped and folded, until they are sorted. Options: select(row) is called for the chosen row, item names it.
function showTable(box, data, options = {}) {
  const {el} = report;
  const height = 25;
  let rows = data.rows.map((cells, index) => ({cells, index}));
  let sorted = null, chosen = null, items = [];
  const open_ = new Set();
  // No header is cut; wide tables scroll.
  const least = data.cols.map(c => Math.max(c.k ? 72 : c.w > 2 ? 150 : 80, 8 * c.t.length + 20));
  const template = data.cols.map((c, n) => `minmax(${least[n]}px, ${c.w || 1}fr)`).join(" ");
  const widest = `min-width:${least.reduce((a, b) => a + b, 0)}px`;
  const input = el("input", {type: "search", class: "search", placeholder: "Filter rows, or /regex/",
    "aria-label": "Filter rows", oninput: refilter});
  const count = el("span", {class: "count"});
  const head = el("div", {class: "vhead", style: `${widest};grid-template-columns:${template}`},
    data.cols.map((col, n) => el("button", {class: col.k ? "num" : "", onclick: () => sort(n), title: "Sort"}, col.t)));
  const body = el("div", {class: "vrows", style: widest});
  const scroller = el("div", {class: "vtable", tabindex: "0", onscroll: draw, onkeydown: key}, head, body);
  const detail = el("div", {class: "detail", hidden: ""});
  box.replaceChildren(el("div", {class: "bar"}, input, count), scroller, detail);

  function refilter() {
    const test = report.matcher(input.value);
    rows = data.rows.map((cells, index) => ({cells, index}))
      .filter(row => !input.value || row.cells.some(c => test(report.plain(c))));
    if (sorted) order();
    scroller.scrollTop = 0;
    arrange();
  }

  // What stands below one another: rows, or a header a group and the rows of those that are open.
  function arrange() {
    items = rows;
    if (data.group !== undefined && !sorted) {
      const groups = new Map();
      for (const row of rows) {
        const name = report.plain(row.cells[data.group]);
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(row);
      }
      const all = groups.size === 1 || Boolean(input.value);
      items = [...groups].flatMap(([name, members]) => [{group: name, members}, ...(all || open_.has(name) ? members : [])]);
    }
    draw();
  }

  function sort(column) {
    sorted = sorted && sorted.column === column ? {column, down: !sorted.down}
      : {column, down: Boolean(data.cols[column].k)};
    order();
    arrange();
  }

  function order() {
    const {column, down} = sorted;
    const value = row => { const c = row.cells[column]; return typeof c === "number" ? c : report.plain(c); };
    rows.sort((a, b) => {
      const x = value(a), y = value(b);
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", {numeric: true});
      return (down ? -less : less) || a.index - b.index;
    });
  }

  function cell(value, col) {
    const shown = typeof value === "number" ? (col.k === "b" ? report.bytes(value) : report.format(value)) : report.link(value);
    return el("span", {class: col.k ? "num" : "", title: report.plain(value)}, shown);
  }

  function draw() {
    count.textContent = `${report.format(rows.length)} of ${report.format(data.rows.length)} rows`;
    body.style.height = items.length * height + "px";
    const first = Math.max(0, Math.floor(scroller.scrollTop / height) - 15);
    const last = Math.min(items.length, first + Math.ceil(scroller.clientHeight / height) + 30);
    body.replaceChildren(...items.slice(first, last).map((row, n) => row.members ? header(row, first + n) : el("div", {
      class: "vrow" + (row === chosen ? " chosen" : ""), "data-row": row.index,
      style: `top:${(first + n) * height}px;grid-template-columns:${template}`,
      onclick: event => { if (event.target.tagName !== "A") choose(row); },
    }, data.cols.map((col, k) => cell(row.cells[k], col)))));
  }

  // A group: its name, how many rows, and the sums of its numbers.
  function header(item, at) {
    const cells = data.cols.map((col, k) => {
      if (!col.k) return el("span", {}, "");
      const known = item.members.map(row => row.cells[k]).filter(v => typeof v === "number");
      return cell(known.length ? known.reduce((a, b) => a + b, 0) : "", col);
    });
    cells[0] = el("span", {class: "grouped"}, `${items.includes(item.members[0]) ? "▾" : "▸"} ${item.group || "(none)"} (${report.format(item.members.length)})`);
    return el("div", {class: "vrow head", style: `top:${at * height}px;grid-template-columns:${template}`, title: item.group,
      onclick: () => { if (!open_.delete(item.group)) open_.add(item.group); arrange(); }}, cells);
  }

  function choose(row, scroll) {
    chosen = row;
    if (scroll && data.group !== undefined && !sorted) { open_.add(report.plain(row.cells[data.group])); arrange(); }
    if (scroll) scroller.scrollTop = Math.max(0, items.indexOf(row) * height - scroller.clientHeight / 3);
    if (options.select) options.select(row.cells);
    else {
      detail.hidden = false;
      detail.replaceChildren(el("dl", {}, data.cols.map((col, n) =>
        [el("dt", {}, col.t), el("dd", {}, report.link(row.cells[n]))])));
    }
    draw();
  }

  function key(event) {
    const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20}[event.key];
    if (!step || !rows.length) return;
    event.preventDefault();
    const shown = items.filter(item => !item.members);
    if (!shown.length) return;
    const at = chosen ? shown.indexOf(chosen) : -1;
    choose(shown[Math.min(shown.length - 1, Math.max(0, at + step))], true);
  }

  // Show a query ("?text") or the row whose first cell is `item`.
  function open(item) {
    if (item.startsWith("?")) { input.value = item.slice(1); refilter(); return; }
    const row = rows.find(r => report.plain(r.cells[0]) === item);
    if (row) choose(row, true);
  }

  arrange();
  new ResizeObserver(draw).observe(scroller);
  if (options.item) open(options.item);
  return {open, input};
}
