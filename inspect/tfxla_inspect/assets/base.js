"use strict";
// Names shared by the report's scripts. Text reaches the page only as text nodes, never as HTML
// (but for `html` blocks, which the report's own writer escaped).
const report = (() => {
  const opened = new Map();

  async function gunzip(base64) {
    const bytes = Uint8Array.fromBase64
      ? Uint8Array.fromBase64(base64) : Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  // The text of a block, opened once.
  function text(key) {
    if (!opened.has(key)) opened.set(key, gunzip(document.getElementById(key).textContent));
    return opened.get(key);
  }

  function json(key) { return text(key).then(JSON.parse); }

  function add(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "href") { if (String(value).startsWith("#")) node.setAttribute("href", value); }
      else node.setAttribute(name, value);
    }
    for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
    return node;
  }

  function el(tag, attributes, ...children) { return add(document.createElement(tag), attributes, children); }

  function svg(tag, attributes, ...children) {
    return add(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  }

  // Replace what is in a node; null children are left out.
  function put(node, ...children) { node.replaceChildren(); return add(node, {}, children); }

  // A cell or label: a string, a number, or {t: text, h: route}.
  function link(value) {
    if (value !== null && typeof value === "object") return el("a", {href: "#" + value.h}, String(value.t));
    return value === null || value === undefined ? "" : String(value);
  }

  function plain(value) {
    return value !== null && typeof value === "object" ? String(value.t) : String(value ?? "");
  }

  // A test of text for a query: /regex/ or a part of it, upper and lower case alike.
  function matcher(query) {
    const pattern = /^\/(.+)\/$/.exec(query);
    if (pattern) {
      try { const regex = new RegExp(pattern[1], "i"); return t => regex.test(t); } catch { return () => false; }
    }
    const low = query.toLowerCase();
    return t => t.toLowerCase().includes(low);
  }

  function middle(text, length) {
    if (text.length <= length) return text;
    const half = (length - 1) >> 1;
    return text.slice(0, length - 1 - half) + "…" + text.slice(text.length - half);
  }

  function format(n) { return n.toLocaleString("en-US"); }

  function bytes(n) {
    if (n < 1000) return n + " B";
    if (n < 1e6) return (n / 1e3).toFixed(1) + " KB";
    return n < 1e9 ? (n / 1e6).toFixed(1) + " MB" : (n / 1e9).toFixed(1) + " GB";
  }

  // A number of a graph's measure: unit "ms", "bytes" or "x".
  function measure(value, unit) {
    if (unit === "bytes") return bytes(value);
    if (unit === "ms") return value < 0.1 ? (value * 1000).toFixed(1) + " us" : value.toFixed(value < 10 ? 2 : 0) + " ms";
    return value.toFixed(1) + " x";
  }

  // Route of the page being shown: {page, tab, item}.
  function route() {
    const [page, tab, ...rest] = location.hash.slice(1).split("/");
    const decode = t => { try { return decodeURIComponent(t); } catch { return t; } };
    return {page: page || "start", tab: tab || "", item: decode(rest.join("/"))};
  }

  function go(page, tab, item) {
    location.hash = [page, tab, item ? encodeURIComponent(item) : ""].filter(Boolean).join("/");
  }

  return {text, json, el, svg, put, link, plain, matcher, middle, format, bytes, measure, route, go};
})();
