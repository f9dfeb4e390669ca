// Times the steps of runs, to show where the time of a run goes.

import { clockOf, HostClock } from './clocks.mjs';
import { fetchFile } from './files.mjs';
import { fileOf } from './opening.mjs';

/** @typedef {import('./model.mjs').Device} Device */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./model.mjs').Manifest} Manifest */
/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {{ steps: string[], work: { step: number, result: string }[] }} Plan */
/** @typedef {import('./clocks.mjs').Kind} Clock */
/** @typedef {{ runs: number, ms: number, clock: Clock, steps: Step[] }} Profile calls and ms are means over all runs */
/** @typedef {{ step: number, name: string, result: string, calls: number, ms: number }} Step */

/**
 * Repeat a run for about `seconds`, after a first run that does not count.
 * @param {ModelModule} module
 * @param {readonly Tensor[]} tensors
 * @param {Plan} plan
 * @param {number} seconds
 * @param {() => Promise<void>} pause between two runs
 * @returns {Promise<Profile>}
 */
export async function profileRuns(module, tensors, plan, seconds, pause) {
  const calls = plan.steps.map(() => 0);
  const times = plan.steps.map(() => 0);
  const add = (/** @type {number} */ step, /** @type {number} */ ms) => {
    times[step] += ms;
  };
  const { driver } = module;
  let runs = 0;
  let total = 0;
  await module.run(tensors);
  const gpuClock = driver && clockOf(add, driver);
  const clock = gpuClock ?? new HostClock(add);
  module.onStep = (step) => {
    calls[step] += 1;
    clock.begin(step);
  };
  try {
    module.exports.profile(1);
    if (driver) {
      driver.clock = gpuClock;
    }
    for (const end = performance.now() + 1000 * seconds; runs === 0 || performance.now() < end; runs += 1) {
      await pause();
      const start = performance.now();
      await module.run(tensors);
      total += performance.now() - start;
    }
  } finally {
    module.exports.profile(0);
    if (driver) {
      driver.clock = null;
    }
  }
  const steps = plan.work.map(({ step, result }) => {
    return { step, name: plan.steps[step], result, calls: calls[step] / runs, ms: times[step] / runs };
  });
  return { runs, ms: total / runs, clock: clock.kind, steps: steps.filter((step) => step.calls > 0) };
}

/**
 * Fetch the plan, which has the names of the steps.
 * @param {Locate} locate
 * @param {Manifest} manifest
 * @param {Device} device
 * @param {LoadOptions} source
 * @returns {Promise<Plan>}
 */
export async function fetchPlan(locate, manifest, device, source) {
  const name = device === 'webgpu' ? 'plan_webgpu.json' : 'plan.json';
  const transfer = { store: null, source, onBytes: () => {} };
  const bytes = await fetchFile(locate(name), fileOf(locate, manifest, name), transfer);
  return JSON.parse(new TextDecoder().decode(bytes));
}
