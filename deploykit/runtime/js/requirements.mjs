// What a model needs, before it is loaded. Bytes of memory are those that its module says, which is a small file; `load`
// finds it kept.

import { UsageError } from './errors.mjs';
import { fetchFile } from './files.mjs';
import { checkOptions, valuesOf } from './inputs.mjs';
import { ModelModule } from './module.mjs';
import { checkDevice, codeOf, fetchManifest, fileOf, shardsOf, sizeOf, storeOf } from './opening.mjs';

/** @typedef {import('./model.mjs').Device} Device */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./model.mjs').Manifest} Manifest */
/** @typedef {import('./inputs.mjs').Dim} Dim */
/** @typedef {Record<string, number>} Sizes by the names of dims */
/** @typedef {{ weights: number, arena: number, states: number, total: number }} Bytes */
/** @typedef {{ device: Device, download: number, cached: number, memory: Bytes, gpu: Bytes }} Requirements */
/** @typedef {Pick<import('./model.mjs').LoadOptions, 'signal' | 'cache' | 'folder' | 'fetch' | 'files'>} Source */

/** @type {readonly (keyof Source | 'device' | 'dims')[]} */
const OPTIONS = ['device', 'dims', 'signal', 'cache', 'folder', 'fetch', 'files'];
/** Files of models of texts. */
const OF_TEXTS = ['text.wasm', 'language.wasm'];
/** Bits of `host_memory`. */
const [HOST_ARENA, HOST_WEIGHTS] = [1, 2];

/**
 * The bytes to fetch, and the memory that the model then takes, in WebAssembly and on a GPU.
 * @param {Locate} locate
 * @param {Source & { device?: Device, dims?: Sizes }} [options] `device`: by default `wasm`; `dims`: sizes of a run, by
 *   default the greatest ones
 * @param {Sizes} [usual] sizes in place of the greatest ones
 * @returns {Promise<Requirements>}
 * @throws {NetworkError | IntegrityError | UnsupportedError | ShapeError | UsageError}
 */
export async function requirements(locate, options, usual = {}) {
  const { device = 'wasm', dims = {}, ...source } = checkOptions(options, OPTIONS, 'requirements');
  /** @type {Manifest & { states?: object, task?: { files: string[] } }} */
  const manifest = await fetchManifest(locate, source);
  checkDevice(manifest, device);
  const names = new Set([...OF_TEXTS, ...(manifest.task?.files ?? [])]);
  const shards = shardsOf(manifest, device);
  const files = [...codeOf(device).map((name) => fileOf(locate, manifest, name)), ...shards];
  files.push(...manifest.files.filter(({ name }) => names.has(name)));
  const store = await storeOf(locate, manifest, source);
  const kept = await Promise.all(files.map((file) => store?.has(locate(file.name), file)));
  const cached = sizeOf(files.filter((_, index) => kept[index]));
  const transfer = { signal: source.signal, store: Promise.resolve(store), source, onBytes: () => {} };
  const code = await fetchFile(locate(files[0].name), files[0], transfer);
  const memory = await memoryOf(code, manifest, { ...usual, ...dims });
  const weights = sizeOf(shards);
  const { arena, states } = memory;
  const onHost = [
    memory.onHost & HOST_WEIGHTS ? weights : 0,
    memory.onHost & HOST_ARENA ? arena : 0,
    memory.hostStates,
  ];
  const all = [weights, arena, states];
  return {
    device,
    download: source.files ? 0 : sizeOf(files) - cached,
    cached,
    memory: bytesOf(device === 'webgpu' ? onHost : all),
    gpu: bytesOf(device === 'webgpu' ? all : [0, 0, 0]),
  };
}

/**
 * @param {readonly number[]} parts
 * @returns {Bytes}
 */
function bytesOf([weights, arena, states]) {
  return { weights, arena, states, total: weights + arena + states };
}

/**
 * What a module says of runs of these sizes: the largest one of its functions.
 * @param {Uint8Array<ArrayBuffer>} code
 * @param {Manifest & { states?: object }} manifest
 * @param {Sizes} sizes
 */
async function memoryOf(code, manifest, sizes) {
  const entries = manifest.functions ?? [{ ...manifest, states: Boolean(manifest.states) }];
  const values = sizesOf(entries.flatMap(({ dims }) => dims), sizes);
  // Nothing is run, so nothing is called on a GPU.
  const gpu = new Proxy({}, { get: () => () => 0 });
  const module = await ModelModule.instantiate(code, manifest, 1, { gpu }, (exports, memory) => {
    return new ModelModule(exports, memory, manifest.inputs, manifest.outputs, 0);
  });
  const [found, exports] = [{ arena: 0, states: 0, hostStates: 0, onHost: 0 }, /** @type {any} */ (module.exports)];
  for (const [index, { name, dims, states }] of entries.entries()) {
    const of = (/** @type {string} */ key) => exports[index ? `${name}.${key}` : key];
    const given = new BigInt64Array(module.memory.buffer, of('dims')(), dims.length);
    given.set(dims.map((dim) => BigInt(/** @type {number} */ (values.get(dim.name)))));
    found.arena = Math.max(found.arena, of('arena_bytes')());
    found.onHost |= of('host_memory')?.() ?? 0;
    if (states) {
      found.states = Math.max(found.states, of('state_bytes')());
      found.hostStates = Math.max(found.hostStates, (of('host_state_bytes') ?? of('state_bytes'))());
    }
  }
  module.end();
  return found;
}

/**
 * The size of each dim: what is given, or else the greatest one.
 * @param {readonly Dim[]} dims
 * @param {Sizes} given
 */
function sizesOf(dims, given) {
  const all = [...new Map(dims.map((dim) => [dim.name, dim])).values()];
  const greatest = all.map(({ name, maximum }) => {
    if (maximum === null && !Object.hasOwn(given, name)) {
      throw new UsageError(`the dim '${name}' has no greatest size: pass one, requirements({ dims: { '${name}': 100 } })`);
    }
    return [name, maximum];
  });
  const values = valuesOf(all, { ...Object.fromEntries(greatest), ...given });
  return new Map(all.map(({ name }, index) => [name, values[index]]));
}
