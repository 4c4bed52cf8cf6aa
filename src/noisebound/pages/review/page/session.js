// Shared by all views: the run, the decisions of this window, and those of other windows.

import { byId, count, decisionInWords } from "./elements.js";
import { Refused, ServerGone, get, post } from "./server.js";

const POLL_MILLISECONDS = 1500;
const UNDO_KEY = "noisebound-undo"; // kept per window, so that a reload does not forget it
const KEYS_KEY = "noisebound-keys";

export class Session {
  static async begin() {
    const session = new Session();
    session.about = await get("about");
    session.progress = await get("progress");
    return session;
  }

  constructor() {
    this.listeners = [];
    this.isBusy = false;
    this.undoable = JSON.parse(sessionStorage.getItem(UNDO_KEY) ?? "[]");
  }

  // Calls the function when decisions change, with true if this window made the change.
  onProgress(listener) {
    this.listeners.push(listener);
  }

  get usesKeys() {
    return localStorage.getItem(KEYS_KEY) !== "off";
  }

  set usesKeys(isOn) {
    localStorage.setItem(KEYS_KEY, isOn ? "on" : "off");
  }

  say(text) {
    byId("spoken").textContent = text;
  }

  // Returns true if the server has saved all decisions.
  async decide(chosen, where, how) {
    const decisions = chosen.map(({ example, verdict, label }) => ({
      position: example.position,
      verdict,
      label,
      known: example.decision?.key ?? null,
    }));
    const answer = await this.send("decisions", { decisions, where, how });
    if (answer === null) return false;
    const [first] = answer.made;
    this.remember([...this.undoable, answer.made.map(decision => decision.key)]);
    this.say(
      answer.made.length === 1
        ? `Saved: ${chosen[0].example.name} is ${decisionInWords(first)}.`
        : `Saved: ${count(answer.made.length, "label")}, ${decisionInWords(first)}.`,
    );
    return true;
  }

  // Saves all labels of an example, or null if it is not usable; returns true if the server has them.
  async settle(example, present) {
    const known = Object.fromEntries(example.toggles.map(({ name, decision }) => [name, decision?.key ?? null]));
    const answer = await this.send("decisions", { position: example.position, present, known });
    if (answer === null) return false;
    this.remember([...this.undoable, answer.made]);
    this.say(`Saved: the labels of ${example.name}.`);
    return true;
  }

  // Returns the positions of the undone decisions, or null.
  async undo() {
    const keys = this.undoable.at(-1) ?? null;
    const answer = await this.send("undo", { keys });
    if (answer === null) return null;
    this.remember(this.undoable.slice(0, -1));
    const nothing = keys === null ? "There is nothing to undo." : "That was undone in another window already.";
    this.say(answer.undone.length ? `Undone: ${count(answer.undone.length, "decision")}.` : nothing);
    return answer.undone;
  }

  remember(undoable) {
    this.undoable = undoable;
    sessionStorage.setItem(UNDO_KEY, JSON.stringify(undoable));
  }

  // A second key before the first is saved would decide about an example that nobody has seen.
  async send(name, content) {
    if (this.isBusy) return null;
    this.isBusy = true;
    try {
      const answer = await post(name, content);
      this.trouble(null);
      this.take(answer.progress, true);
      return answer;
    } catch (error) {
      this.explainUnsaved(error);
      return null;
    } finally {
      this.isBusy = false;
    }
  }

  explainUnsaved(error) {
    if (error instanceof ServerGone) {
      this.trouble(
        "This was not saved: the server has ended. All earlier decisions are saved. Start noisebound review again, and open the address that it prints.",
      );
    } else if (error instanceof Refused && error.status === 409) {
      this.say(error.message);
      this.poll();
    } else {
      this.trouble(`This was not saved: ${error.message}`);
    }
  }

  trouble(text) {
    byId("trouble").hidden = text === null;
    byId("trouble").textContent = text ?? "";
  }

  take(progress, isOwn) {
    const isNew = progress.version !== this.progress.version;
    this.progress = progress;
    if (isNew) for (const listener of this.listeners) listener(isOwn);
  }

  async poll() {
    try {
      const progress = await get("progress");
      if (!this.isBusy) this.take(progress, false);
    } catch {
      // The next decision reports the error.
    }
  }

  follow() {
    setInterval(() => { if (!document.hidden) this.poll(); }, POLL_MILLISECONDS);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.poll(); });
  }
}
