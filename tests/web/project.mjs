// The program of a project that depends on the package. `found` is what it computes, with the options in the address.

import { load } from 'model-small';

const options = Object.fromEntries(new URLSearchParams(location.search).entries().map(([name, text]) => [name, JSON.parse(text)]));

async function computed() {
  const model = await load(options);
  const x = { data: Float32Array.from({ length: 60 }, (_, i) => Math.sin(i)), shape: [1, 3, 1, 20] };
  const { y, moved } = await model.run({ x, shift: new BigInt64Array([21n]) });
  const { threads, threadsReason } = model;
  model.dispose();
  return { y: Array.from(y.data), moved: Number(moved.data[0]), threads, threadsReason };
}

globalThis.found = computed().catch((error) => ({ error: String(error) }));
