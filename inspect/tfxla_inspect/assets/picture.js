"use strict";
// A drawing as an SVG file: the elements, with the colours and sizes that the page's style gives them.
function savePicture(elements, box, name) {
  const NS = "http://www.w3.org/2000/svg", looked = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "text-anchor", "opacity"];
  const svg = report.svg("svg", {xmlns: NS, viewBox: `${box.x} ${box.y} ${box.w} ${box.h}`, width: Math.round(box.w), height: Math.round(box.h),
    "font-family": "system-ui, sans-serif", style: "position:absolute;left:-99999px"},
    report.svg("defs", {}, report.svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"},
      report.svg("path", {d: "M0 0L8 4L0 8z", class: "arrow"}))),
    report.svg("rect", {x: box.x, y: box.y, width: box.w, height: box.h, style: "fill:var(--bg)"}), elements);
  document.body.append(svg);  // for its computed style
  for (const node of svg.querySelectorAll("path, rect, text")) {
    const style = getComputedStyle(node);
    const kept = looked.filter(key => style.getPropertyValue(key)).map(key => `${key}:${style.getPropertyValue(key)}`).join(";");
    node.dataset.kept = kept;
  }
  for (const node of svg.querySelectorAll("[data-kept]")) { node.setAttribute("style", node.dataset.kept); node.removeAttribute("data-kept"); }
  svg.remove();
  svg.removeAttribute("style");
  const file = new Blob([new XMLSerializer().serializeToString(svg)], {type: "image/svg+xml"});
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name.replace(/[^\w.-]+/g, "_").slice(0, 100) + ".svg";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  return file;
}
