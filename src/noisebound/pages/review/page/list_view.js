// All labels in one list, of which only the rows in sight exist, however many there are.

import { byId, count, decisionInWords, element, percent, picture } from "./elements.js";
import { get } from "./server.js";

const ROW = 72; // pixels, as in review.css
const PAGE = 100; // rows per request
const BEYOND = 5; // rows above and below those in sight
const MOST_PAGES = 50; // that are remembered

export class ListView {
  constructor(session, open) {
    this.session = session;
    this.open = open;
    this.window = byId("list-window");
    this.list = byId("list-rows");
    this.actions = [];
    this.pages = new Map();
    this.rows = new Map();
    this.total = 0;
    this.focused = 0;
    this.list.classList.toggle("plain", session.about.kind !== "image");
    this.window.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.list.addEventListener("keydown", event => this.onKey(event));
    new ResizeObserver(() => this.schedule()).observe(this.window);
  }

  async load() {
    this.pages.clear();
    await this.fetchPage(0);
    const { waiting } = this.session.progress;
    byId("list-count").textContent =
      `${count(this.total, "label")}, the most suspect first; ${count(waiting, "suspect")} waiting. Choose one to look at it.`;
    this.list.style.height = `${this.total * ROW}px`;
    this.clear();
    this.draw();
  }

  clear() {
    this.rows.clear();
    this.list.replaceChildren();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.draw();
    });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.window.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.total, Math.ceil((this.window.scrollTop + this.window.clientHeight) / ROW) + BEYOND);
    for (const [place, row] of this.rows) {
      if (place >= first && place < last) continue;
      if (row.contains(document.activeElement)) continue; // so that the keyboard keeps its place
      row.querySelector("img")?.removeAttribute("src"); // a picture that nobody waits for any more
      row.remove();
      this.rows.delete(place);
    }
    for (let place = first; place < last; place += 1) this.drawRow(place);
  }

  drawRow(place) {
    if (this.rows.has(place)) return;
    const page = this.pages.get(Math.floor(place / PAGE));
    if (!Array.isArray(page)) {
      this.fetchPage(Math.floor(place / PAGE)).then(() => this.schedule());
      return;
    }
    const row = this.row(place, page[place % PAGE]);
    this.rows.set(place, row);
    this.list.append(row);
  }

  row(place, item) {
    const isImage = this.session.about.kind === "image";
    const state = item.decision ? decisionInWords(item.decision) : "";
    const button = element(
      "button",
      { type: "button", tabindex: place === this.focused ? "0" : "-1", onclick: () => this.open(item.position) },
      isImage ? picture(item, "thumbnail") : null,
      element("span", { class: "name", dir: "auto" }, isImage ? item.name : item.short),
      element("span", { class: "names" }, `${item.label} → ${item.suggested}`),
      element("span", {}, percent(item.probability)),
      element("span", { class: `state ${item.decision?.verdict ?? ""}` }, state),
    );
    const row = element("li", { "aria-setsize": this.total, "aria-posinset": place + 1 }, button);
    row.style.top = `${place * ROW}px`;
    return row;
  }

  async fetchPage(number) {
    if (this.pages.has(number)) return this.pages.get(number);
    if (this.pages.size >= MOST_PAGES) this.pages.clear();
    const asked = get("queue", { offset: number * PAGE, count: PAGE }).then(page => {
      this.total = page.total;
      this.pages.set(number, page.items);
    });
    this.pages.set(number, asked);
    return asked;
  }

  async onKey(event) {
    const inSight = Math.max(1, Math.floor(this.window.clientHeight / ROW) - 1);
    const targets = {
      ArrowDown: this.focused + 1,
      ArrowUp: this.focused - 1,
      PageDown: this.focused + inSight,
      PageUp: this.focused - inSight,
      Home: 0,
      End: this.total - 1,
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    await this.focus(Math.max(0, Math.min(this.total - 1, targets[event.key])));
  }

  async focus(place) {
    this.rows.get(this.focused)?.querySelector("button").setAttribute("tabindex", "-1");
    this.focused = place;
    await this.fetchPage(Math.floor(place / PAGE));
    const top = place * ROW;
    const { scrollTop, clientHeight } = this.window;
    if (top < scrollTop) this.window.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.window.scrollTop = top + ROW - clientHeight;
    this.draw();
    const button = this.rows.get(place)?.querySelector("button");
    button?.setAttribute("tabindex", "0");
    button?.focus({ preventScroll: true });
  }

  onProgress() {
    return this.load();
  }
}
