// Elements are made by code. Data goes into them as text, never as HTML.

import { pictureAddress } from "./server.js";

const FEW_PIXELS = 200; // an image of fewer is shown with sharp pixels

export const byId = id => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}

export function picture(example, size, isLazy = false) {
  const image = element("img", {
    alt: size === "large" ? `Example ${example.name}` : "",
    loading: isLazy ? "lazy" : "eager",
    decoding: "async",
  });
  image.addEventListener("load", () => {
    image.classList.toggle("small", image.naturalWidth < FEW_PIXELS);
  });
  image.src = pictureAddress(example.position, size);
  return image;
}

export function percent(share) {
  if (share > 0.999 && share < 1) return "> 99.9%";
  return share > 0 && share < 0.001 ? "< 0.1%" : `${(100 * share).toFixed(1)}%`;
}

export function count(number, thing) {
  return `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
}

export function decisionInWords(decision) {
  switch (decision.verdict) {
    case "right": return "right";
    case "wrong": return `wrong: ${decision.label}`;
    case "unsure": return "unsure";
    case "labeled": return `labeled ${decision.label}`;
    default: return "not usable";
  }
}

export function keyCap(key) {
  return key === "Escape" ? "Esc" : key.toUpperCase();
}

// One button per action; its key is shown on it and announced to screen readers. An action may have the
// rank "main" for the most frequent one, or "quiet" for one that decides nothing.
export function actionButtons(actions) {
  return actions.map(({ key, name, run, rank = null }) =>
    element(
      "button",
      { type: "button", class: rank, "aria-keyshortcuts": key, onclick: run },
      element("kbd", { "aria-hidden": "true" }, keyCap(key)),
      element("span", {}, name),
    ),
  );
}

export function fact(value, label) {
  return element("li", {}, element("strong", {}, value), label);
}

export function table(title, header, rows) {
  return element(
    "table",
    {},
    element("caption", {}, title),
    element("thead", {}, element("tr", {}, ...header.map(name => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map(row => element("tr", {}, ...row.map(cell => element("td", {}, cell))))),
  );
}
