// Where the time of a run goes: its steps, timed run by run.

/** @typedef {import('./module.mjs').ModelModule} ModelModule */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {{ steps: string[], work: { step: number, result: string }[] }} Plan */
/** @typedef {{ runs: number, ms: number, steps: Step[] }} Profile calls and milliseconds are the mean of all runs */
/** @typedef {{ step: number, name: string, result: string, calls: number, ms: number }} Step */

/**
 * Run again and again, for about so many seconds after a first time that does not count.
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
  let current = -1;
  let since = 0;
  module.onStep = (step) => {
    const now = performance.now();
    if (current >= 0) {
      calls[current] += 1;
      times[current] += now - since;
    }
    current = step;
    since = performance.now();
  };
  let runs = 0;
  let total = 0;
  await module.run(tensors);
  try {
    module.exports.profile(1);
    for (const end = performance.now() + 1000 * seconds; runs === 0 || performance.now() < end; runs += 1) {
      await pause();
      const start = performance.now();
      await module.run(tensors);
      total += performance.now() - start;
    }
  } finally {
    module.exports.profile(0);
  }
  const steps = plan.work.map(({ step, result }) => {
    return { step, name: plan.steps[step], result, calls: calls[step] / runs, ms: times[step] / runs };
  });
  return { runs, ms: total / runs, steps: steps.filter((step) => step.calls > 0) };
}
