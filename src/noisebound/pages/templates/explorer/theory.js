// The paper's mathematics, with the names of the Python library: noise vectors, noise models,
// entropies, bounds. A distribution is an array with one probability per class. Where Python raises
// an error because a value does not exist, a function here returns null.
"use strict";

const sum = values => values.reduce((total, value) => total + value, 0);
const largestOf = values => values.reduce((largest, value) => Math.max(largest, value));
const leastOf = values => values.reduce((least, value) => Math.min(least, value));

function normalized(values) {
  const total = sum(values);
  return values.map(value => value / total);
}

// --- Noise vectors -------------------------------------------------------------------------------

// u_sym = (1-η, η/(c-1), …, η/(c-1)): wrong labels are spread evenly over all other classes
const symmetricNoise = (rate, classes) =>
  [1 - rate, ...Array(classes - 1).fill(rate / (classes - 1))];

// u_pair = (1-η, η, 0, …, 0): wrong labels all fall on one other class
const pairwiseNoise = (rate, classes) => [1 - rate, rate, ...Array(classes - 2).fill(0)];

// --- Noise models: f and f⁻¹ ---------------------------------------------------------------------

// f(q) = q: a proper loss
const identity = { forward: q => q, inverse: p => p };

// f(q) = T q with T = (1-η-r) I + r 11ᵀ, r = η/(c-1); T is singular at η = (c-1)/c
function symmetric(rate, classes) {
  const offDiagonal = rate / (classes - 1);
  const contrast = 1 - rate - offDiagonal;
  const isSingular = Math.abs(contrast) < 1e-12;
  return {
    forward: q => q.map(value => contrast * value + offDiagonal),
    inverse: p => (isSingular ? null : p.map(value => (value - offDiagonal) / contrast)),
  };
}

// f(q) ∝ q^(1-a), f⁻¹(p) ∝ p^(1/(1-a))
function power(a) {
  const normalizedPower = (p, exponent) => {
    const largest = largestOf(p); // dividing by it keeps high powers from becoming 0/0
    return normalized(p.map(value => (value / largest) ** exponent));
  };
  return {
    forward: q => normalizedPower(q, 1 - a),
    inverse: p => normalizedPower(p, 1 / (1 - a)),
  };
}

// f(q) ∝ q / (1 + A q), f⁻¹(p) = p / (λ - A p) with λ such that it sums to one
function saturating(A) {
  return {
    forward: q => normalized(q.map(value => value / (1 + A * value))),
    inverse: p => {
      const largest = largestOf(p);
      const slack = p.map(value => A * (largest - value));
      const delta = solveForDelta(p, slack, largest);
      return p.map((value, k) => value / (delta + slack[k]));
    },
  };
}

// δ = λ - A max(p), by Newton's method on 1/Σ p/(δ + slack) = 1, which is concave and increasing:
// it approaches the root from one side, and has converged when δ no longer changes
function solveForDelta(p, slack, start) {
  let delta = start;
  for (let step = 0; step < 64; step++) {
    let total = 0, slope = 0;
    for (let k = 0; k < p.length; k++) {
      const term = p[k] / (delta + slack[k]);
      total += term;
      slope += term / (delta + slack[k]);
    }
    const following = delta + total * (total - 1) / slope;
    const hasSettled = Math.abs(following - delta) <= 4 * Number.EPSILON * following;
    delta = following;
    if (hasSettled) break;
  }
  return delta;
}

// --- Losses --------------------------------------------------------------------------------------
// Each has a noiseModel (null if none makes it a proper loss), entropy(p) and best(p), which is
// argmin_q p · L(q), the prediction of least expected loss, or null if there is none.

// -Σ p log p, with 0 log 0 = 0
const shannonEntropy = p => sum(p.map(value => (value > 0 ? -value * Math.log(value) : 0)));

// A proper loss seen through f: H(p) = p · L(f⁻¹(p)), the vector L(q) being classLosses(q)
function throughNoiseModel(noiseModel, classLosses) {
  const entropy = p => {
    const losses = classLosses(noiseModel.inverse(p));
    // infinite only where p is zero, so that p · L is zero there
    return sum(p.map((value, k) => (Number.isFinite(losses[k]) ? value * losses[k] : 0)));
  };
  return { noiseModel, entropy, best: noiseModel.inverse };
}

function crossEntropy() {
  return throughNoiseModel(identity, q => q.map(value => -Math.log(value)));
}

function generalizedCrossEntropy({ a }) {
  if (a === 1) return meanAbsoluteError();
  // (1 - q^a) / a
  return throughNoiseModel(power(a), q => q.map(value => -Math.expm1(a * Math.log(value)) / a));
}

function symmetricCrossEntropy({ A }) {
  return throughNoiseModel(
    saturating(A), q => q.map(value => -Math.log(value) + A * (1 - value)));
}

function meanSquaredError() {
  return throughNoiseModel(identity, q => {
    const squares = sum(q.map(value => value * value));
    return q.map(value => squares - 2 * value + 1);
  });
}

function spherical() {
  return throughNoiseModel(identity, q => {
    const norm = Math.sqrt(sum(q.map(value => value * value)));
    return q.map(value => -value / norm);
  });
}

// The base loss is CE. T cannot produce every p; beyond its range the nearest vertex is best.
function forwardCrossEntropy({ rate, classes }) {
  const noiseModel = symmetric(rate, classes);
  const within = value => Math.min(1, Math.max(0, value));
  return { noiseModel, entropy: shannonEntropy, best: p => noiseModel.inverse(p)?.map(within) };
}

// Its floor is the clean entropy. There is none if T cannot have produced p: then T⁻¹p has
// negative entries, up to rounding.
function backwardCrossEntropy({ rate, classes }) {
  const noiseModel = symmetric(rate, classes);
  const best = p => {
    const clean = noiseModel.inverse(p);
    if (clean === null || leastOf(clean) < -1e-6) return null;
    return clean.map(value => Math.max(0, value));
  };
  const entropy = p => {
    const clean = best(p);
    return clean === null ? null : shannonEntropy(clean);
  };
  return { noiseModel, entropy, best };
}

// Twice the CE against the mean of p and the prior u_sym(η), which is sorted as p is
function priorCrossEntropy({ rate }) {
  const best = p => {
    const prior = symmetricNoise(rate, p.length);
    const likeliest = p.indexOf(largestOf(p));
    [prior[0], prior[likeliest]] = [prior[likeliest], prior[0]];
    return p.map((value, k) => (value + prior[k]) / 2);
  };
  return { noiseModel: null, entropy: p => 2 * shannonEntropy(best(p)), best };
}

// The prediction that puts everything on the likeliest class
function vertex(p) {
  const likeliest = p.indexOf(largestOf(p));
  return p.map((_, k) => (k === likeliest ? 1 : 0));
}

function meanAbsoluteError() {
  return { noiseModel: null, entropy: p => 1 - largestOf(p), best: vertex };
}

// The entropy is a limit that no prediction reaches: in it, the prediction for the least likely
// class goes to zero fastest
function normalizedCrossEntropyMAE() {
  return { noiseModel: null, entropy: p => leastOf(p) + 1 - largestOf(p), best: vertex };
}

// The least expected loss of a loss φ(q_y) that is convex: all classes with q_k > 0 have the same
// p_k · slope(q_k), slope(q, 1-q) being -φ'(q). Classes of equal p have equal q.
function balanced(slope, loss) {
  const best = p => {
    const distinct = [...new Set(p)];
    const largest = largestOf(distinct);
    const predictions = level =>
      new Map(distinct.map(value => [value, probabilityAt(slope, level / value)]));
    let low = largest * slope(1, 1e-26), high = largest * slope(1 / p.length, 1 - 1 / p.length);
    for (let halving = 0; halving < 50; halving++) {
      const middle = Math.sqrt(low * high), q = predictions(middle);
      if (sum(p.map(value => q.get(value))) > 1) low = middle; else high = middle;
    }
    const q = predictions(low);
    return normalized(p.map(value => q.get(value)));
  };
  const entropy = p => {
    const q = best(p);
    return sum(p.map((value, k) => (value > 0 ? value * loss(Math.max(q[k], 1e-300)) : 0)));
  };
  return { noiseModel: null, entropy, best };
}

// The probability at which the slope has this value: zero if it is nowhere so steep, one if it is
// nowhere so flat
function probabilityAt(slope, wanted) {
  const at = logit => slope(1 / (1 + Math.exp(-logit)), 1 / (1 + Math.exp(logit)));
  let low = -60, high = 60;
  if (!(at(low) > wanted)) return 0;
  if (at(high) >= wanted) return 1;
  for (let halving = 0; halving < 45; halving++) {
    const middle = (low + high) / 2;
    if (at(middle) > wanted) low = middle; else high = middle;
  }
  return 1 / (1 + Math.exp(-low));
}

// (1-q)^γ (-log q), γ = 2
function focal() {
  return balanced(
    (q, rest) => rest * (rest / q + 2 * Math.log1p(rest / q)),
    q => (1 - q) ** 2 * -Math.log(q));
}

// A (1 - q), A = -log 1e-4
const REVERSE = -Math.log(1e-4);
function reverseCrossEntropy() {
  return { noiseModel: null, entropy: p => REVERSE * (1 - largestOf(p)), best: vertex };
}

// A normalized loss alone: the least likely class goes to zero, the others do not matter
function normalizedLoss() {
  return { noiseModel: null, entropy: leastOf, best: vertex };
}

// A normalized loss plus another one that is least at a vertex
function activePassive(passive, beta) {
  return {
    noiseModel: null,
    entropy: p => leastOf(p) + beta * passive.entropy(p),
    best: vertex,
  };
}

// ((a+1)^n - (a+q)^n) / n
const agce = (a, n) => q => ((a + 1) ** n - (a + q) ** n) / n;

// An exponent above one makes it concave, and so least at the vertex
function concaveAGCE(a, n) {
  const entropy = p => (1 - largestOf(p)) * agce(a, n)(0);
  return { noiseModel: null, entropy, best: vertex };
}

// ((a-q)^3 - (a-1)^3) / 3, a = 5.5
function asymmetricUnhinged() {
  return balanced(
    (q, rest) => (4.5 + rest) ** 2, q => ((5.5 - q) ** 3 - 4.5 ** 3) / 3);
}

// exp(-q/a), a = 2.5
function asymmetricExponential() {
  return balanced(q => Math.exp(-q / 2.5) / 2.5, q => Math.exp(-q / 2.5));
}

// (1-q) + (1-q)²/2
function taylorCrossEntropy() {
  return balanced((q, rest) => 1 + rest, q => (1 - q) + (1 - q) ** 2 / 2);
}

// The divergence of label and prediction with equal weights, over log(2)/2
function jensenShannon() {
  const divergence = q =>
    ((1 + q) / 2 * Math.log((1 + q) / 2) - (1 - q) / 2 * Math.LN2 - q / 2 * Math.log(q))
      / (-Math.LN2 / 2);
  return balanced(q => Math.log1p(1 / q) / Math.LN2, divergence);
}

// CE of labels of which the share s is spread evenly. A negative s may take more noise out of the
// labels than is in them; then there is no floor.
function labelSmoothing(s) {
  const best = p => {
    const smoothed = p.map(value => (1 - s) * value + s / p.length);
    return leastOf(smoothed) < -1e-9 ? null : smoothed.map(value => Math.max(0, value));
  };
  const entropy = p => {
    const smoothed = best(p);
    return smoothed === null ? null : shannonEntropy(smoothed);
  };
  return { noiseModel: null, entropy, best };
}

// LDR-KL at temperature 1 with margin 0.1
function labelDistributionallyRobust() {
  const raised = Math.exp(0.1);
  const loss = balanced(
    (q, rest) => raised / (q * (1 + (raised - 1) * rest)),
    q => -Math.log(q) + Math.log1p((raised - 1) * (1 - q)));
  return { ...loss, entropy: p => loss.entropy(p) - Math.log(p.length) };
}

const LOSSES = {
  "ce": crossEntropy,
  "fce": forwardCrossEntropy,
  "gce": generalizedCrossEntropy,
  "sce": symmetricCrossEntropy,
  "cep": priorCrossEntropy,
  "backward": backwardCrossEntropy,
  "mse": meanSquaredError,
  "spherical": spherical,
  "mae": meanAbsoluteError,
  "nce-mae": normalizedCrossEntropyMAE,
  "focal": focal,
  "rce": reverseCrossEntropy,
  "nce": normalizedLoss,
  "nfl": normalizedLoss,
  "nce-rce": () => activePassive(reverseCrossEntropy(), 1),
  "nfl-mae": () => activePassive(meanAbsoluteError(), 1),
  "nfl-rce": () => activePassive(reverseCrossEntropy(), 1),
  "agce": () => balanced(q => (0.6 + q) ** -0.4, agce(0.6, 0.6)),
  "aul": asymmetricUnhinged,
  "ael": asymmetricExponential,
  "nce-agce": () => activePassive(concaveAGCE(6, 1.5), 4),
  "taylor": taylorCrossEntropy,
  "js": jensenShannon,
  "ls": () => labelSmoothing(0.1),
  "nls": () => labelSmoothing(-0.4),
  "ldr-kl": labelDistributionallyRobust,
};

// setting: rate and classes, for which some losses are made, and the loss's own a or A
const createLoss = (name, setting) => LOSSES[name](setting);

// --- Bounds --------------------------------------------------------------------------------------

// B(η, c) = H(u_sym(η, c))
const noiseBound = (loss, rate, classes) => loss.entropy(symmetricNoise(rate, classes));

// The entropy of any noise at rate η lies between those of pairwise and of symmetric noise
const entropyInterval = (loss, rate, classes) =>
  [loss.entropy(pairwiseNoise(rate, classes)), noiseBound(loss, rate, classes)];
