// All labels of an example at once, as boxes to tick; the labels that are probably wrong come first.

import { actionButtons, byId, count, element, percent } from "./elements.js";
import { showMessage, showWith } from "./example_card.js";
import { get } from "./server.js";

const MOST_KEYS = 9; // labels with a digit of their own

export class LabelsView {
  constructor(session) {
    this.session = session;
    this.card = byId("labels-card");
    this.example = null;
    this.pinned = null;
    const digits = (session.about.labels ?? []).slice(0, MOST_KEYS).map((_, place) => ({
      key: String(place + 1), name: `Tick label ${place + 1}`, isHidden: true, run: () => this.toggle(place),
    }));
    this.actions = [
      { key: "s", name: "Save the labels", rank: "main", run: () => this.save(false) },
      { key: "a", name: "Take the suggestions", run: () => this.accept() },
      { key: "x", name: "Not usable", run: () => this.save(true) },
      { key: "z", name: "Undo", rank: "quiet", run: () => this.undo() },
      ...digits,
    ];
    byId("labels-actions").replaceChildren(...actionButtons(this.actions.filter(each => !each.isHidden)));
  }

  async load() {
    const turn = (this.turn = {}); // of several loads at once, the last one counts
    const next = this.pinned ?? (await get("next")).next;
    const example = next === null ? null : await get(`examples/${next}`);
    if (turn !== this.turn) return;
    const { reviewed, waiting } = this.session.progress;
    byId("labels-progress").textContent = `${count(reviewed, "label")} checked, ${waiting.toLocaleString("en")} suspects left`;
    this.example = example;
    if (example === null) showMessage(this.card, element("div"), element("p", {}, "Every label is checked."));
    else showWith(this.card, example, this.toggles(example));
  }

  toggles(example) {
    const items = example.toggles.map(label => element(
      "li",
      { class: label.is_suspect ? "suspect" : null },
      element(
        "label",
        {},
        element("input", { type: "checkbox", checked: label.present, disabled: label.given === null }),
        element("span", { dir: "auto" }, label.name),
      ),
      element("span", { class: "state" }, inWords(label)),
    ));
    return element("fieldset", { class: "toggles" }, element("legend", {}, "Labels"), element("ul", {}, ...items));
  }

  get boxes() {
    return [...this.card.querySelectorAll(".toggles input")];
  }

  toggle(place) {
    const box = this.boxes[place];
    if (box && !box.disabled) box.checked = !box.checked;
  }

  accept() {
    this.example?.toggles.forEach((label, place) => {
      if (label.is_suspect) this.boxes[place].checked = !label.given;
    });
  }

  // A key that comes before the next example is shown decides nothing.
  async save(isUnusable) {
    const { example, pinned, boxes } = this;
    if (example === null) return;
    this.example = null;
    this.pinned = null; // so that the next example follows
    const known = example.toggles.filter(label => label.given !== null);
    const present = Object.fromEntries(known.map(label => [label.name, boxes[example.toggles.indexOf(label)].checked]));
    const isSaved = await this.session.settle(example, isUnusable ? null : present);
    if (!isSaved) Object.assign(this, { example, pinned });
  }

  async undo() {
    const undone = await this.session.undo();
    if (!undone?.length) return;
    [this.pinned] = undone;
    await this.load();
  }

  onProgress() {
    return this.load();
  }
}

function inWords(label) {
  if (label.given === null) return "not known";
  if (label.decision) return `checked by ${label.decision.by}`;
  if (!label.is_suspect) return "";
  return `${label.given ? "probably wrong" : "probably missing"}, ${percent(label.probability)}`;
}
