// The views of the page. The address names the one that is shown, so a reload keeps it.

import { AuditView } from "./audit_view.js";
import { Batch } from "./batch.js";
import { Chooser } from "./chooser.js";
import { byId, element, keyCap } from "./elements.js";
import { FinishView } from "./finish_view.js";
import { LabelsView } from "./labels_view.js";
import { ListView } from "./list_view.js";
import { ReviewView } from "./review_view.js";
import { SecondView } from "./second_view.js";
import { Session } from "./session.js";

const session = await Session.begin().catch(error => {
  byId("trouble").hidden = false;
  byId("trouble").textContent = `The run cannot be shown: ${error.message}`;
  throw error;
});
byId("run-name").textContent = session.about.run;
document.title = `Review ${session.about.run}`;

// In a second opinion, the other steps would show the labels.
const isBlind = session.about.second_opinion > 0;
// With several labels per example, one step decides all of them, and digits tick labels.
const hasLabels = session.about.labels !== undefined;
const isGuided = !isBlind && !hasLabels;
const NAMES = isBlind ? ["second"] : hasLabels ? ["labels", "finish"] : ["audit", "review", "list", "finish"];
document.querySelector("nav").hidden = isBlind;
for (const link of document.querySelectorAll("nav a")) link.hidden = !NAMES.includes(link.hash.slice(1));

const chooser = new Chooser(session.about.classes);
const review = new ReviewView(session, chooser, new Batch(session));
const views = {
  audit: new AuditView(session, chooser),
  review,
  list: new ListView(session, position => {
    review.pinned = position;
    location.hash = "review";
  }),
  finish: new FinishView(),
  second: new SecondView(session, chooser),
  labels: new LabelsView(session),
};

function current() {
  const name = location.hash.slice(1);
  if (isBlind) return "second";
  return NAMES.includes(name) ? name : session.about.begins_with;
}

async function show() {
  for (const name of NAMES) byId(name).hidden = name !== current();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${current()}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  await settled(views[current()].load());
}

// A view that cannot be loaded says why, and stays usable.
async function settled(loading) {
  try {
    await loading;
  } catch (error) {
    session.trouble(`This cannot be shown: ${error.message} Reload the page, or start noisebound review again.`);
  }
}

// A field in a dialog that was closed a moment ago may still have the focus.
function isTyping(target) {
  return target.checkVisibility() && target.closest("input:not([type=checkbox]), select") !== null;
}

function onKey(event) {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat;
  if (!isPlain || !session.usesKeys || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const key = event.key.toLowerCase();
  const action = views[current()].actions.find(each => each.key === key);
  if (action) action.run();
  else if (key === "?") openHelp();
  else if (isGuided && NAMES[Number(key) - 1]) location.hash = NAMES[Number(key) - 1];
  else return;
  event.preventDefault();
}

function openHelp() {
  const lines = [
    ...views[isGuided ? "review" : NAMES[0]].actions.map(({ key, name }) => [key, name]),
    ...(!isGuided ? [] : [["1", "Audit"], ["2", "Review"], ["3", "All labels"], ["4", "Finish"]]),
    ["?", "This list"],
  ];
  byId("help-keys").replaceChildren(
    ...lines.flatMap(([key, name]) => [
      element("dt", {}, element("kbd", {}, keyCap(key))),
      element("dd", {}, name),
    ]),
  );
  byId("use-keys").checked = session.usesKeys;
  byId("help").showModal();
}

byId("help-button").addEventListener("click", openHelp);
byId("use-keys").addEventListener("change", event => { session.usesKeys = event.target.checked; });
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", show);
session.onProgress(isOwn => settled(views[current()].onProgress(isOwn)));
await show();
session.follow();
