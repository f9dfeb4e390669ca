// The comparison in node, on WebAssembly. transformers.js would take a native library there, so it is given the runtime
// of browsers, which fetches files by paths.

import { readFile } from 'node:fs/promises';
import * as ort from './node_modules/onnxruntime-web/dist/ort.wasm.min.mjs';
import { compare } from './compare.mjs';
import { load } from './package/index.mjs';

globalThis[Symbol.for('onnxruntime')] = ort;
globalThis.fetch = async (path) => {
  const bytes = await readFile(path);
  return new Response(bytes, { headers: { 'Content-Length': String(bytes.length) } });
};
const { env, pipeline } = await import('./node_modules/@huggingface/transformers/dist/transformers.node.mjs');
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL('./node_modules/onnxruntime-web/dist/', import.meta.url).href;
Object.assign(env, { localModelPath: './', allowRemoteModels: false });

const settings = JSON.parse(await readFile('settings.json', 'utf8'));
const session = { executionProviders: ['wasm'] };
const pipe = await pipeline('feature-extraction', 'peer', { dtype: 'fp32', device: 'auto', session_options: session });
console.log(JSON.stringify(await compare({ load, pipe, ...settings, device: 'wasm' })));
