// The audit: examples drawn at random, and the noise rate that follows from the answers.

import { actionButtons, byId, count, element, fact, percent, table } from "./elements.js";
import { showExample, showMessage } from "./example_card.js";
import { get } from "./server.js";

export class AuditView {
  constructor(session, chooser) {
    this.session = session;
    this.chooser = chooser;
    this.card = byId("audit-card");
    this.example = null;
    this.actions = [
      { key: "r", name: "Right", rank: "main", run: () => this.decide("right", null) },
      { key: "c", name: "Wrong: choose", run: () => this.choose() },
      { key: "u", name: "Unsure", run: () => this.decide("unsure", null) },
      { key: "x", name: "Not usable", run: () => this.decide("unusable", null) },
      { key: "z", name: "Undo", rank: "quiet", run: () => this.session.undo() },
    ];
    byId("audit-actions").replaceChildren(...actionButtons(this.actions));
    byId("audit-size").addEventListener("change", () => this.load());
  }

  async load() {
    const turn = (this.turn = {}); // of several loads at once, the last one counts
    const audit = await get("audit");
    const example = audit.next === null ? null : await get(`examples/${audit.next}`);
    if (turn !== this.turn) return;
    this.audit = audit;
    this.showSizes();
    this.showProgress();
    if (this.answered >= this.wanted || example === null) this.showEnd();
    else this.show(example);
  }

  show(example) {
    const { suggested, probability, ...neutral } = example;
    this.example = example;
    showExample(this.card, neutral, this.result());
  }

  get answered() {
    return this.audit.result.answered + this.audit.result.undecided;
  }

  get wanted() {
    return Number(byId("audit-size").value);
  }

  // The estimate of the number of labels to check improves with each answer.
  showSizes() {
    const select = byId("audit-size");
    const chosen = select.selectedIndex;
    select.replaceChildren(
      ...this.audit.sizes.map(({ points, labels }) =>
        element("option", { value: labels }, `${count(labels, "label")}, for ±${points} points`),
      ),
      element("option", { value: this.session.about.examples }, "as many as you like"),
    );
    // After a reload, the audit goes on towards the first size that it has not reached.
    const next = [...select.options].findIndex(option => Number(option.value) > this.answered);
    select.selectedIndex = chosen >= 0 ? chosen : Math.max(0, next);
  }

  showProgress() {
    const bar = byId("audit-progress");
    bar.max = Math.max(1, this.wanted);
    bar.value = Math.min(this.answered, this.wanted);
    byId("audit-count").textContent = `${this.answered} of ${this.wanted.toLocaleString("en")}`;
  }

  showEnd() {
    this.example = null;
    showMessage(
      this.card,
      this.result(),
      element("p", {}, "You have checked enough labels. Go on with the labels that are probably wrong:"),
      element("p", {}, element("a", { class: "button", href: "#review" }, "Review the suspects")),
    );
  }

  result() {
    const { result } = this.audit;
    if (result.answered === 0) return element("div");
    const facts = [fact(`${result.wrong} of ${result.answered}`, "checked labels are wrong")];
    if (result.rate !== null) {
      const [low, high] = result.interval;
      facts.push(fact(percent(result.rate), `of all labels are wrong (${percent(low)} to ${percent(high)})`));
    }
    if (result.run_rate !== null) facts.push(fact(percent(result.run_rate), "of all labels are wrong by the run's own estimate"));
    return element(
      "div",
      { class: "evidence" },
      element("h3", {}, "The result so far"),
      element("ul", { class: "facts" }, ...facts),
      element("p", {}, result.words),
      ...this.resultTables(result),
    );
  }

  resultTables(result) {
    const tables = [];
    if (result.confusions.length) {
      const rows = result.confusions.map(each => [each.label, each.true, String(each.count)]);
      tables.push(table("Which classes are confused", ["label", "is really", "times"], rows));
    }
    if (result.reliability.length) {
      const rows = result.reliability.map(each => [
        `${Math.round(100 * each.low)}–${Math.round(100 * each.high)}%`,
        String(each.checked),
        percent(each.predicted),
        percent(each.found),
      ]);
      tables.push(table("How well the probabilities hold", ["probability", "checked", "predicted wrong", "found wrong"], rows));
    }
    return tables;
  }

  // A key that comes before the next example is shown decides nothing.
  async decide(verdict, label) {
    const { example } = this;
    if (example === null) return;
    this.example = null;
    const isSaved = await this.session.decide([{ example, verdict, label }], "audit", "person");
    if (!isSaved) this.example = example;
  }

  async choose() {
    if (this.example === null) return;
    const { label, probabilities } = this.example;
    const chosen = await this.chooser.choose(label, probabilities);
    if (chosen !== null) await this.decide("wrong", chosen);
  }

  onProgress() {
    return this.load();
  }
}
