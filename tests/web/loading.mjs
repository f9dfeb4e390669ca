// `node loading.mjs PACKAGE BASE SCRIPT BEFORE`: evaluates BEFORE, loads the model at BASE with the modules of PACKAGE,
// evaluates SCRIPT, an expression over `model`, and prints the outcome as JSON.

import { pathToFileURL } from 'node:url';

const [folder, base, script, before] = process.argv.slice(2);
const { load, ...errors } = await import(`${pathToFileURL(folder)}/runtime/model.mjs`);

const progress = [];
const abort = new AbortController();
const options = {
  device: script === 'webgpu' ? 'webgpu' : 'auto',
  signal: abort.signal,
  onProgress: ({ loaded, total }) => {
    progress.push(loaded);
    if (script === 'abort') {
      abort.abort();
    }
    progress.total = total;
  },
};
const report = {};
(0, eval)(before);
try {
  const model = await load((name) => new URL(name, base), options);
  report.loaded = true;
  report.value = script && script !== 'abort' && (await eval(`(async () => ${script})()`));
} catch (error) {
  report.error = error.name;
  report.message = error.message;
  report.known = error instanceof errors.DeploykitError;
}
try {
  // After any error, the next model loads and runs.
  const next = await load((name) => pathToFileURL(`${folder}/${name}`));
  const x = { data: new Float32Array(60), shape: [1, 3, 1, 20] };
  report.alive = (await next.run({ x, shift: new BigInt64Array([21n]) })).moved.data[0] === 42n;
  next.dispose();
} catch {
  report.alive = false;
}
const plain = (_, value) => (typeof value === 'bigint' ? Number(value) : value);
console.log(JSON.stringify({ ...report, progress, total: progress.total }, plain));
process.exit(0);
