// One example, large, with its label and the evidence for and against it.

import { decisionInWords, element, percent, picture } from "./elements.js";
import { get } from "./server.js";

const SHOWN_CLASSES = 5;

// The caller makes `beside`, the element next to the example.
export function showExample(card, example, beside) {
  card.dataset.position = example.position;
  card.replaceChildren(labels(example), exhibit(example), beside);
}

export function showUnlabeled(card, example) {
  card.dataset.position = example.position;
  card.replaceChildren(element("div"), exhibit(example), element("div"));
}

// The caller makes `labels`, which stand beside the example.
export function showWith(card, example, labels) {
  card.dataset.position = example.position;
  card.replaceChildren(labels, exhibit(example), element("div"));
}

export function showMessage(card, beside, ...children) {
  delete card.dataset.position;
  card.replaceChildren(element("div"), element("div", { class: "exhibit" }, ...children), beside);
}

function exhibit(example) {
  if (example.kind === "image") {
    return element(
      "figure",
      { class: "exhibit" },
      picture(example, "large"),
      element("figcaption", {}, example.name),
    );
  }
  const columns = example.columns.flatMap(([name, value]) => [
    element("dt", {}, name),
    element("dd", {}, value),
  ]);
  // A region that scrolls can be reached by the Tab key, so that the arrows scroll it.
  const scrolls = { tabindex: "0", role: "region", "aria-label": `Example ${example.name}` };
  return element(
    "div",
    { class: "exhibit" },
    example.text === null ? null : element("p", { class: "text", dir: "auto", ...scrolls }, example.text),
    columns.length ? element("div", { class: "columns", ...(example.text === null ? scrolls : {}) }, element("dl", {}, ...columns)) : null,
    element("p", { class: "name" }, example.name),
  );
}

function labels(example) {
  const list = element(
    "dl",
    { class: "labels" },
    element("dt", {}, "Label"),
    element("dd", { class: example.suggested === undefined ? null : "of-label" }, example.label),
  );
  for (const [annotator, label] of example.labels ?? []) {
    list.append(element("dt", { class: "annotator" }, annotator), element("dd", {}, label));
  }
  const parts = [list];
  if (example.suggested !== undefined) {
    list.append(element("dt", {}, "Likelier"), element("dd", { class: "of-suggestion" }, example.suggested));
    parts.push(element("p", { class: "faint" }, `The label is wrong with a probability of ${percent(example.probability)}.`));
  }
  if (example.decision) parts.push(decided(example.decision));
  return element("div", { class: "verdict" }, ...parts);
}

export function evidence(example) {
  return element(
    "div",
    { class: "evidence" },
    element("h3", {}, "Predicted probabilities"),
    bars(example.probabilities),
    neighbors(example),
  );
}

function decided(decision) {
  const when = new Date(decision.at).toLocaleString();
  return element("p", { class: "made" }, `Decided: ${decisionInWords(decision)} (by ${decision.by}, ${when})`);
}

function bars(probabilities) {
  const rows = probabilities.slice(0, SHOWN_CLASSES).map(([name, share]) => {
    const filled = element("span");
    filled.style.width = `${100 * share}%`;
    return element(
      "li",
      {},
      element("span", {}, name),
      element("span", {}, percent(share)),
      element("span", { class: "bar", "aria-hidden": "true" }, filled),
    );
  });
  return element("ul", { class: "bars" }, ...rows);
}

// Neighbors come later: to find them, the server goes through all examples.
function neighbors(example) {
  const list = element("ul", { class: example.kind === "image" ? "neighbors" : "neighbors lines" });
  get(`neighbors/${example.position}`).then(
    found => list.append(...found.map(other => neighbor(example, other))),
    () => list.append(element("li", {}, "The neighbors could not be loaded.")),
  );
  return element("div", {}, element("h3", {}, "Nearest neighbors and their labels"), list);
}

function neighbor(example, other) {
  const agrees = other.label === example.label ? "other" : other.label === example.suggested ? "same" : "";
  return element(
    "li",
    {},
    example.kind === "image" ? picture(other, "thumbnail") : null,
    element("strong", { class: agrees }, other.label),
    example.kind === "image" ? null : ` ${other.short}`,
  );
}
