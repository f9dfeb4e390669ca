// Dynamic models: `dynamic` makes a model take a list of instances and return what its `main` returns for each.

import { decode } from './decoding.mjs';
import { encode } from './encoding.mjs';
import { UsageError } from './errors.mjs';
import { checkOptions } from './inputs.mjs';
import { COMMON } from './model.mjs';
import { signatureOf } from './signatures.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./inputs.mjs').Input} Input */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./signatures.mjs').DynamicEntry} DynamicEntry */
/** @typedef {import('./signatures.mjs').Signature} Signature */
/** @typedef {{ cell: string, nodes: { instance: number, object: unknown }[] }} Launch */
/** @typedef {readonly unknown[] | Record<string, Input>} Given instances, or their words by the names of inputs */

/** @type {readonly (keyof LoadOptions)[]} */
const OPTIONS = ['device', 'onProgress', 'signal', 'threads', 'cache', 'folder', ...COMMON];
/** @type {Record<string, number>} */
export const POLICIES = { depth: 0, fsm: 1, agenda: 2, alone: 3, critical: 4 };
/** `DK_TRACE`, added to the number of a policy. */
const TRACE = 16;
/** `DK_TRACED`, the words for each node: its launch, cell, instance, and the handle of its object. */
const TRACED = 4;

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
     * The launches of the last run, in order, if it was traced.
     * @type {Launch[]}
     */
    trace: [],
    /**
     * What `main` returns for each instance.
     * @param {Given} given
     * @param {{ signal?: AbortSignal, policy?: string, trace?: boolean }} [options]
     * @throws {ShapeError | DataError | MemoryError | WorkerError | UsageError}
     */
    run: async (given, options) => {
      const allowed = /** @type {const} */ (['signal', 'policy', 'trace']);
      const { signal, policy = entry.policy, trace = false } = checkOptions(options, allowed, 'run');
      if (isWords(given)) {
        return run(given, { signal });
      }
      const { inputs, objects } = inputsOf(model, signature, given, policy, trace);
      const results = /** @type {Tensor[]} */ (Object.values(await run(inputs, { signal })));
      const [{ data: counts }, { data: rows }] = results.splice(-2);
      made.launches = entry.cells.map(({ name }, index) => [name, Number(counts[index])]);
      made.trace = trace ? launchesOf(/** @type {Int32Array} */ (rows), made.launches, objects()) : [];
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
 * @param {boolean} trace
 * @returns {{ inputs: Record<string, Input>, objects: () => Map<number, unknown> }}
 */
function inputsOf({ inputs }, { takes }, instances, policy, trace) {
  if (!Object.hasOwn(POLICIES, policy)) {
    throw new UsageError(`there is no policy '${policy}': there are ${Object.keys(POLICIES).join(', ')}`);
  }
  const { words, roots, elements, objects } = encode(takes, instances);
  const width = Number(inputs[1].shape[1]);
  /** @type {Record<string, Input>} */
  const given = {
    instances: words,
    roots: { data: roots, shape: [instances.length, width] },
    policy: { data: Int32Array.of(POLICIES[policy] + (trace ? TRACE : 0)), shape: [] },
    elements,
  };
  return { inputs: Object.fromEntries(inputs.map(({ name }) => [name, given[name]])), objects };
}

/**
 * The launches of a run, in order. Nodes that did not run, because nobody asked for their results, are left out.
 * @param {Int32Array} rows as `dk_give_trace` writes them
 * @param {readonly [cell: string, count: number][]} cells
 * @param {ReadonlyMap<number, unknown>} objects what handles stand for
 */
function launchesOf(rows, cells, objects) {
  /** @type {Launch[]} */
  const found = [];
  for (let at = 0; at < rows.length; at += TRACED) {
    const [launch, cell, instance, handle] = rows.subarray(at, at + TRACED);
    if (launch >= 0) {
      found[launch] ??= { cell: cells[cell][0], nodes: [] };
      found[launch].nodes.push({ instance, object: objects.get(handle) ?? null });
    }
  }
  return found;
}
