// The losses and ranges that the library rendered into the page, and their descriptions.
"use strict";

const EXPLORED = JSON.parse(document.getElementById("explored").textContent);
const LOSS_BY_NAME = new Map(EXPLORED.losses.map(loss => [loss.name, loss]));

// At η = (c-1)/c every label is equally likely: there cannot be more noise than that
const largestRate = classes => (classes - 1) / classes;

const shortNumber = value => String(Number(value.toPrecision(4)));
const longNumber = value => (Math.abs(value) < 5e-7 ? 0 : value).toFixed(6);
const pythonFloat = value => (Number.isInteger(value) ? value.toFixed(1) : String(value));

function describeLoss({ loss, ...values }) {
  const { label, parameters } = LOSS_BY_NAME.get(loss);
  return [label, ...parameters.map(name => `${name} = ${shortNumber(values[name])}`)].join(", ");
}

// The Python call that returns the same number
function pythonLine({ loss, rate, classes, a, A }) {
  const values = {
    rate: pythonFloat(rate), classes, a: pythonFloat(a), A: pythonFloat(A),
  };
  const made = LOSS_BY_NAME.get(loss).python.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  return `nb.noise_bound(${made}, noise_rate=${values.rate}, num_classes=${classes})`;
}
