// The three plots of a setting. Two are the paper's figure on the sensitivity of bounds; the third
// is its figure on noise models, for any number of classes.
"use strict";

const SAMPLES = 100;
const LEAST_RATE = 0.005; // the ratio's curve begins here, because without noise it is 0/0
const LEAST_HEIGHT = 0.1; // height of an axis on which everything is zero

// The setting's loss for another noise rate, since some losses are made for a rate
const lossAt = (rate, at) => createLoss(at.loss, { ...at, rate });

const sampled = (low, high, valueAt) => Array.from({ length: SAMPLES + 1 }, (_, k) => {
  const x = low + (high - low) * k / SAMPLES;
  return [x, valueAt(x) ?? null];
});

// The paper's figures end at 0.5; the axis goes on if the reader has chosen a higher rate
const rateAxis = ({ rate, classes }) =>
  linearAxis("noise rate η", 0, rate <= 0.5 ? 0.5 : largestRate(classes));

// The best prediction for the first class, if its noisy probability is p and the others are equal
const bestOfFirst = (at, classes) => {
  const loss = createLoss(at.loss, { ...at, classes });
  return p => loss.best(symmetricNoise(1 - p, classes))?.[0];
};

function inversePlot(setting) {
  const { loss, rate, classes } = setting;
  const name = describeLoss(setting), p = 1 - rate, best = bestOfFirst(setting, classes)(p);
  const among = (classes, style) => ({
    label: `${name}, ${classes} classes`,
    style,
    points: sampled(0, 1, bestOfFirst(setting, classes)),
  });
  const curves = [among(classes, "chosen")];
  if (classes > 2 && rate < largestRate(2)) curves.push(among(2, "binary"));
  if (loss !== "ce") {
    curves.push({ label: describeLoss({ loss: "ce" }), style: "ce", points: [[0, 0], [1, 1]] });
  }
  const found = best === undefined ? "there is none" : `it is ${shortNumber(best)}`;
  return {
    description: [
      "The prediction of least expected loss against the noisy probability p of a class,",
      `for ${name}. At p = 1 - η = ${shortNumber(p)}, with ${classes} classes, ${found}.`,
    ].join(" "),
    x: linearAxis("noisy probability p of the class", 0, 1),
    y: linearAxis("best prediction f⁻¹(p)", 0, 1),
    curves,
    rule: p,
    dots: best === undefined ? [] : [[p, best]],
  };
}

function sensitivityPlot(setting) {
  const { rate, classes } = setting;
  const x = rateAxis(setting);
  const interval = rate => entropyInterval(lossAt(rate, setting), rate, classes);
  const limits = sampled(0, x.high, interval);
  const [lower, upper] = [0, 1].map(side => limits.map(([rate, both]) => [rate, both[side]]));
  const values = limits.flatMap(([, both]) => both).filter(value => value !== null);
  const low = Math.min(0, ...values), high = Math.max(low + LEAST_HEIGHT, ...values);
  const here = interval(rate);
  const isBand = lower.every(([, value]) => value !== null);
  const hasPairwise = lower.some(([rate, value]) => rate > 0 && value !== null);
  const between = here.every(value => value !== null)
    ? `At ${shortNumber(rate)} they are ${shortNumber(here[0])} and ${shortNumber(here[1])}.`
    : "It has no interval here.";
  return {
    description: [
      "The entropies of pairwise and of symmetric noise against the noise rate,",
      `for ${describeLoss(setting)} and ${classes} classes. ${between}`,
    ].join(" "),
    x,
    y: linearAxis("entropy of the noisy labels", low, high),
    curves: [
      { label: "symmetric noise: the bound", style: "chosen", points: upper },
      { label: `pairwise noise${hasPairwise ? "" : ": none"}`, style: "binary", points: lower },
    ],
    band: isBand ? { lower, upper } : undefined,
    rule: rate,
    dots: here.filter(value => value !== null).map(value => [rate, value]),
  };
}

// How much too high the bound may be; null if the entropies are not positive
function ratio(at, rate, classes) {
  const [lower, upper] = entropyInterval(lossAt(rate, at), rate, classes);
  return lower > 1e-12 ? upper / lower : null;
}

function ratioPlot(setting) {
  const { rate, classes } = setting;
  const x = rateAxis(setting), name = describeLoss(setting);
  const others = EXPLORED.references
    .map(reference => ({ ...EXPLORED.defaults, ...reference }))
    .filter(reference => describeLoss(reference) !== name);
  const curves = [setting, ...others].map((at, k) => ({
    label: describeLoss(at),
    style: k === 0 ? "chosen" : at.loss,
    points: sampled(LEAST_RATE, x.high, rate => ratio(at, rate, classes)),
  }));
  const values = curves.flatMap(curve => curve.points.map(([, value]) => value ?? 1));
  const here = ratio(setting, Math.max(rate, LEAST_RATE), classes);
  const found = here === null ? "there is none" : `it is ${shortNumber(here)}`;
  if (here === null) curves[0].label += ": no ratio, as its entropy is not positive";
  return {
    description: [
      "How much too high the bound may be: the ratio of the entropies of symmetric and of pairwise",
      `noise against the noise rate, with ${classes} classes.`,
      `For ${name} at ${shortNumber(rate)} ${found}.`,
    ].join(" "),
    x,
    y: logarithmicAxis("symmetric / pairwise", 1, Math.max(2, ...values)),
    curves,
    rule: rate,
    dots: here === null ? [] : [[Math.max(rate, LEAST_RATE), here]],
  };
}
