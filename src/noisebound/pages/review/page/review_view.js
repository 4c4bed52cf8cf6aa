// The review: one suspect after the other, the most suspect first.

import { actionButtons, byId, count, decisionInWords, element } from "./elements.js";
import { evidence, showExample, showMessage } from "./example_card.js";
import { get, pictureAddress } from "./server.js";

const AHEAD = 3; // examples that are fetched before they are shown
const FILTER_KEY = "noisebound-filter";

export class ReviewView {
  constructor(session, chooser, batch) {
    this.session = session;
    this.chooser = chooser;
    this.batch = batch;
    this.card = byId("review-card");
    this.example = null;
    this.pinned = null; // the position of an example that was asked for
    this.skipped = 0; // waiting suspects that were passed over
    this.ahead = new Map();
    this.filter = JSON.parse(sessionStorage.getItem(FILTER_KEY) ?? '{"label": null, "suggested": null}');
    this.actions = [
      { key: "s", name: "Wrong: take the suggestion", rank: "main", run: () => this.decide("wrong", this.example?.suggested) },
      { key: "r", name: "Right", run: () => this.decide("right", null) },
      { key: "c", name: "Wrong: choose", run: () => this.choose() },
      { key: "u", name: "Unsure", run: () => this.decide("unsure", null) },
      { key: "x", name: "Not usable", run: () => this.decide("unusable", null) },
      { key: "z", name: "Undo", rank: "quiet", run: () => this.undo() },
      { key: "b", name: "Look-alikes", rank: "quiet", run: () => this.openBatch() },
      { key: "n", name: "Skip", rank: "quiet", run: () => this.step(1) },
      { key: "p", name: "Back", rank: "quiet", run: () => this.step(-1) },
    ];
    byId("review-actions").replaceChildren(...actionButtons(this.actions));
    byId("filter-label").addEventListener("change", event => this.setFilter({ label: event.target.value || null, suggested: null }));
    byId("filter-pair").addEventListener("change", event => this.setFilter(JSON.parse(event.target.value)));
  }

  async load() {
    const turn = (this.turn = {}); // of several loads at once, the last one counts
    this.showProgress();
    this.followFilters();
    const page = await get("queue", { offset: this.skipped, count: 1 + AHEAD, waiting: 1, ...this.filter });
    if (this.skipped && this.skipped >= page.total) {
      this.skipped = Math.max(0, page.total - 1);
      return this.load();
    }
    const position = this.pinned ?? page.items[0]?.position;
    const example = position === undefined ? null : await this.fetched(position);
    if (turn !== this.turn) return;
    if (example === null) this.showEnd();
    else this.show(example);
    for (const item of page.items) this.fetchAhead(item.position);
  }

  async fetched(position) {
    const example = await (this.ahead.get(position) ?? get(`examples/${position}`));
    this.ahead.delete(position);
    return example;
  }

  show(example) {
    this.example = example;
    const isShown = this.card.dataset.position === String(example.position);
    if (!isShown || example.decision) showExample(this.card, example, evidence(example));
  }

  fetchAhead(position) {
    if (position === this.example?.position || this.ahead.has(position)) return;
    if (this.ahead.size > 4 * AHEAD) this.ahead.clear();
    const example = get(`examples/${position}`);
    example.catch(() => this.ahead.delete(position)); // it is asked for again when it is shown
    this.ahead.set(position, example);
    if (this.session.about.kind === "image") new Image().src = pictureAddress(position, "large");
  }

  showEnd() {
    this.example = null;
    const isFiltered = this.filter.label !== null || this.filter.suggested !== null;
    showMessage(this.card, element("div"), element("p", {}, isFiltered ? "No label of this class is left." : "No label is left."));
  }

  showProgress() {
    const { reviewed, last, waiting, pays } = this.session.progress;
    const parts = [count(reviewed, "label"), " checked"];
    if (last.of) parts.push(" · ", element("strong", {}, `${last.wrong} of the last ${last.of}`), " were wrong");
    parts.push(` · ${count(waiting, "suspect")} waiting`);
    byId("review-progress").replaceChildren(...parts);
    const advice = byId("review-advice");
    advice.hidden = pays;
    if (!pays) advice.replaceChildren(`${this.session.progress.advice} `, element("a", { href: "#finish" }, "Finish"));
  }

  followFilters() {
    const isInUse = ["filter-label", "filter-pair"].includes(document.activeElement?.id);
    if (!isInUse) this.showFilters(); // else it would close under the reader's hand
  }

  async showFilters() {
    const { labels, pairs } = await get("filters");
    const { label, suggested } = this.filter;
    byId("filter-label").replaceChildren(
      element("option", { value: "" }, "all"),
      ...labels.map(each => element("option", { value: each.label }, `${each.label} (${each.waiting})`)),
    );
    byId("filter-label").value = label ?? "";
    const choices = [
      [{ label: suggested === null ? label : null, suggested: null }, "all"],
      ...pairs.map(pair => [{ label: pair.label, suggested: pair.suggested }, `${pair.label} → ${pair.suggested} (${pair.waiting})`]),
    ];
    const chosen = JSON.stringify(this.filter);
    if (suggested !== null && !choices.some(([value]) => JSON.stringify(value) === chosen)) {
      choices.push([this.filter, `${label} → ${suggested} (0)`]);
    }
    byId("filter-pair").replaceChildren(
      ...choices.map(([value, text]) => element("option", { value: JSON.stringify(value) }, text)),
    );
    byId("filter-pair").value = chosen;
  }

  setFilter(filter) {
    this.filter = filter;
    this.skipped = 0;
    this.pinned = null;
    sessionStorage.setItem(FILTER_KEY, JSON.stringify(filter));
    this.showFilters();
    return this.load();
  }

  // A key that comes before the next example is shown decides nothing.
  async decide(verdict, label) {
    const { example, pinned } = this;
    if (example === null) return;
    this.example = null;
    this.pinned = null; // so that the next example follows
    const isSaved = await this.session.decide([{ example, verdict, label }], "review", "person");
    if (!isSaved) Object.assign(this, { example, pinned });
  }

  async choose() {
    if (this.example === null) return;
    const { label, probabilities } = this.example;
    const chosen = await this.chooser.choose(label, probabilities);
    if (chosen !== null) await this.decide("wrong", chosen);
  }

  async undo() {
    const undone = await this.session.undo();
    if (undone?.length) await this.open(undone[0]);
  }

  async openBatch() {
    if (this.example !== null) await this.batch.open(this.example);
  }

  step(by) {
    this.pinned = null;
    this.skipped = Math.max(0, this.skipped + by);
    return this.load();
  }

  open(position) {
    this.pinned = position;
    this.ahead.delete(position);
    return this.load();
  }

  // An undecided example stays. If another window has decided about it, the page says so.
  async onProgress(isOwn) {
    if (!isOwn && this.example !== null && this.pinned === null) {
      const { decision, name } = await get(`examples/${this.example.position}`);
      if (decision) this.session.say(`Decided in another window: ${name} is ${decisionInWords(decision)}.`);
    }
    await this.load();
  }
}
