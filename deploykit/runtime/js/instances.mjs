// Dynamic models: `dynamic` makes a model take a list of instances and return what its `main` returns for each.

import { decode } from './decoding.mjs';
import { encode } from './encoding.mjs';
import { UsageError } from './errors.mjs';
import { checkOptions } from './inputs.mjs';
import { signatureOf } from './signatures.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./inputs.mjs').Input} Input */
/** @typedef {import('./signatures.mjs').DynamicEntry} DynamicEntry */
/** @typedef {import('./signatures.mjs').Signature} Signature */
/** @typedef {readonly unknown[] | Record<string, Input>} Given instances, or their words by the names of inputs */

/** @type {readonly (keyof LoadOptions)[]} */
const OPTIONS = ['device', 'onProgress', 'signal', 'threads', 'cache', 'folder'];
/** @type {Record<string, number>} */
export const POLICIES = { depth: 0, fsm: 1, agenda: 2, alone: 3, critical: 4 };

/**
 * A function that loads a dynamic model, from one that loads any model.
 * @param {(locate: Locate, options?: LoadOptions) => Promise<Model>} load
 * @param {DynamicEntry} entry how the model is called, as in the manifest
 */
export function dynamic(load, entry) {
  return async (/** @type {Locate} */ locate, /** @type {LoadOptions | undefined} */ options) => {
    const model = await load(locate, checkOptions(options, OPTIONS, 'load'));
    return adapted(model, entry);
  };
}

/**
 * @param {Model} model
 * @param {DynamicEntry} entry
 */
function adapted(model, entry) {
  const signature = signatureOf(entry);
  const run = model.run.bind(model);
  const own = {
    /**
     * The cells, and how often the last run launched each.
     * @type {[cell: string, count: number][]}
     */
    launches: [],
    /**
     * What `main` returns for each instance.
     * @param {Given} given
     * @param {{ signal?: AbortSignal, policy?: string }} [options]
     * @throws {ShapeError | DataError | MemoryError | WorkerError | UsageError}
     */
    run: async (given, options) => {
      const { signal, policy = entry.policy } = checkOptions(options, ['signal', 'policy'], 'run');
      if (isWords(given)) {
        return run(given, { signal });
      }
      const inputs = inputsOf(model, signature, given, policy);
      const results = Object.values(await run(inputs, { signal }));
      const [{ data: counts }] = results.splice(-1);
      made.launches = entry.cells.map(({ name }, index) => [name, Number(counts[index])]);
      return decode(signature.gives, results, given.length);
    },
    profile: async () => {
      throw new UsageError('a dynamic model has no profile: its steps are not known before a run');
    },
  };
  const made = Object.assign(model, own);
  return made;
}

/**
 * Whether instances are given as words, as Python sends them.
 * @param {Given} given
 * @returns {given is Record<string, Input>}
 */
function isWords(given) {
  return !Array.isArray(given) && 'roots' in Object(given);
}

/**
 * @param {Model} model
 * @param {Signature} signature
 * @param {readonly unknown[]} instances
 * @param {string} policy
 * @returns {Record<string, Input>}
 */
function inputsOf({ inputs }, { takes }, instances, policy) {
  if (!Object.hasOwn(POLICIES, policy)) {
    throw new UsageError(`there is no policy '${policy}': there are ${Object.keys(POLICIES).join(', ')}`);
  }
  const { words, roots, elements } = encode(takes, instances);
  const width = Number(inputs[1].shape[1]);
  /** @type {Record<string, Input>} */
  const given = {
    instances: words,
    roots: { data: roots, shape: [instances.length, width] },
    policy: { data: Int32Array.of(POLICIES[policy]), shape: [] },
    elements,
  };
  return Object.fromEntries(inputs.map(({ name }) => [name, given[name]]));
}
