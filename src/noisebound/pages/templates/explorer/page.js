// The page: the reader's setting, in the controls and in the address, and the results for it.
"use strict";

const byId = id => document.getElementById(id);

// --- The setting: {loss, rate, classes, a, A} ---------------------------------------------------

let setting = { ...EXPLORED.defaults };

// Apply changes, limited to each control's range; values that are not valid are ignored
function adopt(changes) {
  const wanted = { ...setting, ...changes };
  const within = (value, low, high) => Math.min(high, Math.max(low, value));
  if (LOSS_BY_NAME.has(wanted.loss)) setting.loss = wanted.loss;
  for (const { name, low, high } of EXPLORED.parameters) {
    if (Number.isFinite(wanted[name])) setting[name] = within(wanted[name], low, high);
  }
  if (Number.isFinite(wanted.classes)) {
    setting.classes = within(Math.round(wanted.classes), 2, EXPLORED.most_classes);
  }
  if (Number.isFinite(wanted.rate)) {
    setting.rate = within(wanted.rate, 0, largestRate(setting.classes));
  }
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const changes = { ...EXPLORED.defaults };
  for (const [key, value] of given) changes[key] = key === "loss" ? value : parseFloat(value);
  adopt(changes);
}

function writeAddress() {
  const { loss, rate, classes } = setting;
  const parameters = LOSS_BY_NAME.get(loss).parameters.map(name => [name, setting[name]]);
  const shown = { loss, rate, classes, ...Object.fromEntries(parameters) };
  history.replaceState(null, "", `#${new URLSearchParams(shown)}`);
}

// --- Controls: each a slider and a box for the same value ---------------------------------------

// The slider's stops are uneven, so that ten classes and a thousand are both within reach.
const CLASS_STOPS = [];
for (let stop = 2; stop <= EXPLORED.most_classes;) {
  CLASS_STOPS.push(stop);
  stop += stop < 20 ? 1 : stop < 50 ? 5 : stop < 100 ? 10 : stop < 200 ? 20 : 100;
}
const nearestStop = classes => CLASS_STOPS.reduce(
  (best, stop, k) => (Math.abs(stop - classes) < Math.abs(CLASS_STOPS[best] - classes) ? k : best),
  0);

const sliderScale = name => (name === "classes"
  ? { fromSlider: k => CLASS_STOPS[k], toSlider: nearestStop }
  : { fromSlider: value => value, toSlider: value => value });

function connect(name) {
  const slider = byId(`${name}-slider`), box = byId(`${name}-box`);
  if (name === "classes") slider.max = CLASS_STOPS.length - 1;
  slider.addEventListener("input", () => {
    adopt({ [name]: sliderScale(name).fromSlider(slider.valueAsNumber) });
    show();
  });
  box.addEventListener("input", () => {
    if (!box.validity.valid || box.value === "") return; // the user is still typing
    adopt({ [name]: box.valueAsNumber });
    show(box);
  });
  for (const control of [slider, box]) {
    control.addEventListener("change", () => { show(); writeAddress(); });
  }
}

// `typing` is the box that the user is typing in, which must not be changed
function showControl(name, typing) {
  const slider = byId(`${name}-slider`), box = byId(`${name}-box`);
  if (name === "rate") slider.max = box.max = largestRate(setting.classes);
  slider.value = sliderScale(name).toSlider(setting[name]);
  slider.setAttribute("aria-valuetext", shortNumber(setting[name]));
  if (box !== typing) box.value = setting[name];
}

// --- Results ------------------------------------------------------------------------------------

const NO_INTERVAL = "The backward correction has no floor for noise that its T cannot produce.";

function showNumbers() {
  const { rate, classes } = setting;
  const loss = createLoss(setting.loss, setting);
  const [lower, upper] = entropyInterval(loss, rate, classes);
  const clean = loss.noiseModel?.inverse(symmetricNoise(rate, classes));
  const name = describeLoss(setting);
  const where = `${name}, noise rate ${shortNumber(rate)}, ${classes} classes`;
  byId("bound").textContent = upper === null ? "none" : longNumber(upper);
  byId("meaning").textContent = upper === null
    ? `${where}: the labels hold no information, and the correction cannot be inverted.`
    : `${where}: below a mean training loss of ${shortNumber(upper)}, a model memorizes noise.`;
  byId("lower").textContent = lower === null ? "none" : longNumber(lower);
  byId("interval-note").textContent = lower === null ? NO_INTERVAL : "";
  byId("upper").textContent = upper === null ? "none" : longNumber(upper);
  byId("inverse").textContent = clean ? longNumber(clean[0]) : "none";
  byId("inverse-note").textContent = loss.noiseModel === null
    ? "This loss has no noise model that makes it a proper loss."
    : clean === null
      ? "The labels hold no information: f has no inverse."
      : "The prediction for the true class that has the least expected loss.";
  byId("noise").textContent =
    `(${shortNumber(1 - rate)}, ${shortNumber(rate / (classes - 1))}${classes > 2 ? ", …" : ""})`;
  // a narrow screen may break the line after an opening parenthesis
  const parts = pythonLine(setting).split(/(?<=\((?!\)))/);
  byId("python").replaceChildren(
    ...parts.flatMap(part => [part, document.createElement("wbr")]));
  byId("copied").textContent = "";
}

function showPlots() {
  drawPlot(byId("inverse-plot"), inversePlot(setting));
  drawPlot(byId("sensitivity-plot"), sensitivityPlot(setting));
  drawPlot(byId("ratio-plot"), ratioPlot(setting));
}

function show(typing) {
  const chosen = LOSS_BY_NAME.get(setting.loss);
  byId("loss").value = setting.loss;
  byId("formula").textContent = chosen.formula;
  for (const { name } of EXPLORED.parameters) {
    byId(`${name}-control`).hidden = !chosen.parameters.includes(name);
  }
  for (const name of CONTROLS) showControl(name, typing);
  showNumbers();
  showPlots();
}

// --- Start --------------------------------------------------------------------------------------

const CONTROLS = ["rate", "classes", ...EXPLORED.parameters.map(({ name }) => name)];
CONTROLS.forEach(connect);
byId("loss").addEventListener("change", event => {
  adopt({ loss: event.target.value });
  show();
  writeAddress();
});
byId("copy").addEventListener("click", async () => {
  // selected, so that the keyboard can copy it if the page may not
  getSelection().selectAllChildren(byId("python"));
  try {
    await navigator.clipboard.writeText(byId("python").textContent);
    byId("copied").textContent = "copied";
  } catch {
    byId("copied").textContent = "selected: copy it with the keyboard";
  }
});
addEventListener("hashchange", () => { readAddress(); show(); });
addEventListener("resize", showPlots);
readAddress();
show();
