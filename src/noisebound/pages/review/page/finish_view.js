// The number of decisions, and the commands that use them.

import { byId, fact } from "./elements.js";
import { get } from "./server.js";

export class FinishView {
  constructor() {
    this.actions = [];
  }

  async load() {
    const found = await get("finish");
    byId("finish-facts").replaceChildren(
      fact(found.decided.toLocaleString("en"), "labels were decided"),
      fact(found.changed.toLocaleString("en"), "of them were wrong and are corrected"),
      fact(found.unsure.toLocaleString("en"), "are unsure"),
      fact(found.unusable.toLocaleString("en"), "are not usable"),
    );
    byId("finish-file").textContent = found.file;
    byId("finish-commands").textContent = found.commands.join("\n");
  }

  onProgress() {
    return this.load();
  }
}
