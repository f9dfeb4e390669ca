// The number of threads of a model. All but the first are workers (pool.mjs, which is loaded only if there are any).

/** The default at most, because a page has other things to do than one model. */
const USUAL = 4;
/** The most workers that a module can count. */
const MOST_THREADS = 256;

/**
 * The number of threads that a model runs on.
 * @param {number} [wanted] by default up to 4, and not more than there are processors
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
