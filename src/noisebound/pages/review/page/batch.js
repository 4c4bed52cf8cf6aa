// A grid of look-alikes, which have the same label and the same suggestion, to decide at once.

import { actionButtons, byId, count, element, percent, picture } from "./elements.js";
import { get } from "./server.js";

export class Batch {
  constructor(session) {
    this.session = session;
    this.dialog = byId("batch");
    this.grid = byId("batch-grid");
    this.dialog.addEventListener("keydown", event => this.onKey(event));
    this.dialog.addEventListener("change", () => this.showActions());
    this.dialog.addEventListener("close", () => this.resolve());
  }

  // Resolves when the dialog is closed, whether anything was decided or not.
  async open(example) {
    const ends = new Promise(resolve => { this.resolve = resolve; });
    this.examples = await get(`look-alikes/${example.position}`);
    byId("batch-title").textContent =
      `${count(this.examples.length, "example")} labeled ${example.label}, likelier ${example.suggested}`;
    this.grid.classList.toggle("lines", this.session.about.kind !== "image");
    this.grid.replaceChildren(...this.examples.map(each => this.tile(each)));
    this.showActions();
    this.dialog.showModal();
    this.boxes[0].focus();
    return ends;
  }

  get boxes() {
    return [...this.grid.querySelectorAll("input")];
  }

  get marked() {
    const boxes = this.boxes;
    return this.examples.filter((_, place) => boxes[place].checked);
  }

  tile(example) {
    const isImage = this.session.about.kind === "image";
    const box = { type: "checkbox", checked: example.ticked, "aria-label": `Example ${example.name}` };
    return element(
      "label",
      { class: "tile" },
      isImage ? picture(example, "thumbnail", true) : null,
      element("input", box),
      ` ${percent(example.probability)} `,
      isImage ? null : element("span", { dir: "auto" }, example.short),
    );
  }

  showActions() {
    const { length } = this.marked;
    const [{ suggested }] = this.examples;
    this.actions = [
      { key: "s", name: `Wrong: ${length} are ${suggested}`, rank: "main", run: () => this.decide("wrong", suggested) },
      { key: "r", name: `Right: ${length} labels`, run: () => this.decide("right", null) },
      { key: "Escape", name: "Back", run: () => this.dialog.close() },
    ];
    byId("batch-actions").replaceChildren(...actionButtons(this.actions));
    for (const button of [...byId("batch-actions").children].slice(0, 2)) button.disabled = length === 0;
  }

  async decide(verdict, label) {
    const chosen = this.marked.map(example => ({ example, verdict, label }));
    if (chosen.length && (await this.session.decide(chosen, "review", "bulk"))) this.dialog.close();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns() };
    if (event.key in steps) this.move(steps[event.key]);
    else if (this.session.usesKeys && ["s", "r"].includes(event.key.toLowerCase())) {
      this.actions.find(action => action.key === event.key.toLowerCase()).run();
    } else return;
    event.preventDefault();
  }

  move(step) {
    const boxes = this.boxes;
    const place = boxes.indexOf(document.activeElement) + step;
    if (place >= 0 && place < boxes.length) boxes[place].focus();
  }

  columns() {
    return getComputedStyle(this.grid).gridTemplateColumns.split(" ").length;
  }
}
