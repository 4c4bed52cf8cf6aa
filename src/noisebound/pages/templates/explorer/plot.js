// Line plots as SVG. This file knows nothing about noise; the style sheet has colors and dashes.
"use strict";

const MARGIN = { left: 46, right: 16, top: 26, bottom: 40 };
const AIMED_TICKS = 5;

function svgElement(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

// An axis is its label, its end, its ticks, and where a value lies on it, from 0 to 1.
function linearAxis(label, low, high) {
  const rough = (high - low) / AIMED_TICKS;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = magnitude * [1, 2, 5, 10].find(factor => factor * magnitude >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return { label, high, ticks, place: value => (value - low) / (high - low) };
}

function logarithmicAxis(label, low, high) {
  const decades = Array.from({ length: 8 }, (_, k) => 10 ** k);
  const factors = high > 100 * low ? [1] : high > 10 * low ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  const ticks = decades
    .flatMap(decade => factors.map(factor => decade * factor))
    .filter(tick => low <= tick && tick <= high);
  return { label, high, ticks, place: value => Math.log(value / low) / Math.log(high / low) };
}

// plot: description, x and y (axes), curves ({label, style, points}), rule (the x to draw a line
// at), dots (points), and optionally band ({lower, upper}). A point is [x, y]; where y is null,
// a curve is interrupted.
function drawPlot(figure, plot) {
  const svg = figure.querySelector("svg");
  const width = svg.clientWidth;
  const height = Math.round(Math.min(300, Math.max(220, 0.68 * width)));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-label", plot.description);
  const area = {
    left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom,
  };
  const toX = value => area.left + plot.x.place(value) * (area.right - area.left);
  const toY = value => area.bottom - plot.y.place(value) * (area.bottom - area.top);
  svg.replaceChildren(
    ...axes(plot, area, toX, toY),
    ...(plot.band ? [bandShape(plot.band, toX, toY)] : []),
    svgElement("path", { class: "rule", d: `M${toX(plot.rule)},${area.top} V${area.bottom}` }),
    // the first curve is what the plot is about, so it lies on top
    ...plot.curves.toReversed().map(({ style, points }) =>
      svgElement("path", { class: `curve ${style}`, d: pathThrough(points, toX, toY) })),
    ...plot.dots.map(([x, y]) =>
      svgElement("circle", { class: "dot", cx: toX(x), cy: toY(y), r: 5 })),
  );
  figure.querySelector("ul").replaceChildren(...plot.curves.map(legendEntry));
}

function axes(plot, area, toX, toY) {
  const parts = [
    svgElement("text", { class: "label", x: 2, y: 14 }, plot.y.label),
    svgElement(
      "text", { class: "label", x: area.right, y: area.bottom + 35, "text-anchor": "end" },
      plot.x.label),
  ];
  const { left, right, top, bottom } = area;
  for (const tick of plot.x.ticks) {
    const x = toX(tick);
    parts.push(
      svgElement("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }),
      svgElement("text", { class: "tick", x, y: bottom + 17, "text-anchor": "middle" }, tick),
    );
  }
  for (const tick of plot.y.ticks) {
    const y = toY(tick);
    parts.push(
      svgElement("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
      svgElement("text", { class: "tick", x: left - 6, y: y + 4, "text-anchor": "end" }, tick),
    );
  }
  const frame = `M${left},${top} V${bottom} H${right}`;
  return [...parts, svgElement("path", { class: "frame", d: frame })];
}

function pathThrough(points, toX, toY) {
  let isDrawing = false;
  return points.map(([x, y]) => {
    const command = isDrawing ? "L" : "M";
    isDrawing = y !== null;
    return isDrawing ? `${command}${toX(x).toFixed(2)},${toY(y).toFixed(2)}` : "";
  }).join("");
}

function bandShape({ lower, upper }, toX, toY) {
  const around = [...upper, ...lower.toReversed()];
  return svgElement("path", { class: "band", d: `${pathThrough(around, toX, toY)}Z` });
}

function legendEntry({ label, style }) {
  const entry = document.createElement("li");
  const sample = svgElement("svg", { width: 34, height: 10, "aria-hidden": "true" });
  sample.append(svgElement("path", { class: `curve ${style}`, d: "M1,5 H33" }));
  entry.append(sample, ` ${label}`);
  return entry;
}
