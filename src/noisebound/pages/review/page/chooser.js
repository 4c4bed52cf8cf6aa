// The dialog in which a person types to find the right class.

import { byId, element, percent } from "./elements.js";

const MOST_SHOWN = 100; // of thousands of classes; typing finds the others

export class Chooser {
  constructor(classes) {
    this.classes = classes;
    this.dialog = byId("chooser");
    this.input = byId("chooser-input");
    this.list = byId("chooser-classes");
    this.input.addEventListener("input", () => this.show());
    this.input.addEventListener("keydown", event => this.onKey(event));
    this.dialog.addEventListener("close", () => this.resolve(this.chosen));
  }

  // Resolves to the name of a class, or to null if the person goes back.
  choose(label, probabilities) {
    const known = new Map(probabilities);
    const likelier = (a, b) => (known.get(b) ?? 0) - (known.get(a) ?? 0);
    this.offered = this.classes.filter(name => name !== label).sort(likelier);
    this.known = known;
    this.chosen = null;
    this.input.value = "";
    this.show();
    this.dialog.showModal();
    this.input.focus();
    return new Promise(resolve => { this.resolve = resolve; });
  }

  show() {
    const typed = this.input.value.trim().toLocaleLowerCase();
    const found = this.offered.filter(name => name.toLocaleLowerCase().includes(typed));
    const starts = name => !name.toLocaleLowerCase().startsWith(typed);
    if (typed) found.sort((a, b) => starts(a) - starts(b));
    this.shown = found.slice(0, MOST_SHOWN);
    this.list.replaceChildren(...this.shown.map((name, index) => this.option(name, index)));
    if (!this.shown.length) this.list.append(element("li", { "aria-disabled": "true" }, "No class has this name."));
    this.mark(0);
  }

  option(name, index) {
    const share = this.known.get(name);
    return element(
      "li",
      { role: "option", id: `class-${index}`, onclick: () => this.take(index) },
      element("span", {}, name),
      share === undefined ? null : element("span", {}, percent(share)),
    );
  }

  mark(index) {
    this.marked = Math.max(0, Math.min(index, this.shown.length - 1));
    const options = this.list.querySelectorAll("[role=option]");
    options.forEach((each, place) => each.setAttribute("aria-selected", place === this.marked));
    const marked = options[this.marked];
    marked?.scrollIntoView({ block: "nearest" });
    if (marked) this.input.setAttribute("aria-activedescendant", marked.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  take(index) {
    if (index >= this.shown.length) return;
    this.chosen = this.shown[index];
    this.dialog.close();
  }

  onKey(event) {
    if (event.key === "ArrowDown") this.mark(this.marked + 1);
    else if (event.key === "ArrowUp") this.mark(this.marked - 1);
    else if (event.key === "Enter") this.take(this.marked);
    else return;
    event.preventDefault();
  }
}
