// A second opinion: random examples are labeled again by someone who does not see their labels.

import { actionButtons, byId, element } from "./elements.js";
import { showMessage, showUnlabeled } from "./example_card.js";
import { get } from "./server.js";

const MOST_BUTTONS = 10; // classes with a button and a digit of their own

export class SecondView {
  constructor(session, chooser) {
    this.session = session;
    this.chooser = chooser;
    this.card = byId("second-card");
    this.example = null;
    const { classes } = session.about;
    const buttons = classes.map((name, index) => ({ key: String((index + 1) % 10), name, run: () => this.label(name) }));
    const choose = { key: "c", name: "Choose a class", rank: "main", run: () => this.choose() };
    this.actions = [
      ...(classes.length <= MOST_BUTTONS ? buttons : [choose]),
      { key: "z", name: "Undo", rank: "quiet", run: () => this.session.undo() },
    ];
    byId("second-actions").replaceChildren(...actionButtons(this.actions));
  }

  async load() {
    const turn = (this.turn = {}); // of several loads at once, the last one counts
    const second = await get("second");
    if (turn !== this.turn) return;
    const bar = byId("second-progress");
    bar.max = Math.max(1, second.of);
    bar.value = second.done;
    byId("second-count").textContent = `${second.done} of ${second.of.toLocaleString("en")}`;
    this.example = second.next;
    if (this.example === null) this.showEnd(second);
    else showUnlabeled(this.card, this.example);
  }

  showEnd(second) {
    showMessage(
      this.card,
      element("div"),
      element("p", {}, "Thank you, all examples of this sample have your label."),
      element("p", {}, second.words ?? ""),
      element("p", {}, "Your labels are in ", element("code", {}, second.file), "."),
    );
  }

  // A key that comes before the next example is shown decides nothing.
  async label(name) {
    const { example } = this;
    if (example === null) return;
    this.example = null;
    const isSaved = await this.session.decide([{ example, verdict: "labeled", label: name }], "second opinion", "person");
    if (!isSaved) this.example = example;
  }

  async choose() {
    if (this.example === null) return;
    const chosen = await this.chooser.choose(null, []);
    if (chosen !== null) await this.label(chosen);
  }

  onProgress() {
    return this.load();
  }
}
