"use strict";
// Kernels of a module: the table, and under it the texts of the chosen one.
// data = {table: {cols, rows}, texts: [{t, key, language, at: {symbol: [first line, lines]}}],
// facts: {symbol: [[title, value], ...]}}.
function showKernels(box, data, options) {
  const {el} = report;
  const fitting = 110 + 25 * data.table.rows.length;
  const upper = el("div", {class: "upper", style: `max-height:${fitting}px`}), facts = el("div", {class: "facts"}), lower = el("div", {class: "lower"});
  let symbol = "", language = 0;
  box.replaceChildren(upper, facts, lower);
  const table = showTable(upper, data.table, {select: cells => choose(report.plain(cells[0]))});
  const rows = data.table.rows;
  const wanted = rows.find(cells => cells.some(c => report.plain(c) === (data.of[options.item] || options.item))) || rows[0];
  if (wanted) table.open(report.plain(wanted[0]));

  function choose(name) {
    symbol = name;
    facts.replaceChildren(el("dl", {}, (data.facts[name] || []).map(([title, value]) =>
      [el("dt", {}, title), el("dd", {}, Array.isArray(value) ? value.map(v => el("div", {}, report.link(v))) : report.link(value))])));
    draw();
  }

  async function draw() {
    const having = data.texts.filter(t => t.key && t.at[symbol]);
    if (!having.length) { lower.replaceChildren(el("p", {class: "note"}, "The dump holds no text of this kernel.")); return; }
    const text = having[Math.min(language, having.length - 1)];
    const [first, count] = text.at[symbol];
    const whole = await report.text(text.key);
    const buttons = el("span", {class: "choice"}, having.map((t, n) => el("button", {"aria-pressed": String(t === text),
      onclick: () => { language = n; draw(); }}, t.t)));
    showText(lower, whole, {language: text.language, first, count});
    lower.prepend(buttons);
  }

  return table;
}
