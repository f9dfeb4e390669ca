// Models that answer in the user's terms: how they are loaded, whatever they take.

import { fetchJson } from './files.mjs';
import { MANIFEST } from './opening.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {(locate: Locate, options?: LoadOptions) => Promise<Model>} Load */

/**
 * A function that gives models further methods: it takes a function that loads a model, and returns another one.
 * `prepare` fetches what the methods need, while the model is loaded, so that both share what they fetch.
 * @template T
 * @param {(locate: Locate, options?: LoadOptions) => Promise<T>} prepare
 * @param {(model: Model, fetched: T) => object} methodsOf
 * @returns {(load: Load) => Load}
 */
export function answering(prepare, methodsOf) {
  return (load) => async (locate, options) => {
    const fetching = prepare(locate, options);
    fetching.catch(() => {});
    const model = await load(locate, options);
    try {
      return Object.assign(model, methodsOf(model, await fetching));
    } catch (error) {
      model.dispose();
      throw error;
    }
  };
}

/**
 * What the manifest says of the task.
 * @param {Locate} locate
 * @param {LoadOptions} [options]
 */
export async function fetchTask(locate, { signal } = {}) {
  return (await fetchJson(locate(MANIFEST), signal)).task;
}
