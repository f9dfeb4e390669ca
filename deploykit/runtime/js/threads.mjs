// On how many threads a model runs. Those beside the first one are workers (pool.mjs), loaded where there are any.

/** A page has other things to do than one model. */
const USUAL = 4;
/** So far a module counts. */
const MOST_THREADS = 256;

/**
 * How many threads a model runs on.
 * @param {number} [wanted] by default a few, as far as there are processors
 */
export async function threadCount(wanted) {
  const node = isNode();
  if (!node && !globalThis.crossOriginIsolated) {
    return 1;
  }
  const processors = node ? (await import('os')).cpus().length : navigator.hardwareConcurrency;
  return Math.min(wanted ?? Math.min(processors, USUAL), MOST_THREADS);
}

export function isNode() {
  return Boolean(globalThis.process?.versions?.node);
}
