// `engine engines.mjs PACKAGE`: runs the package on the CPU with one thread, with two, and in a worker, and prints the
// threads and the results.

const { load } = await import(`${process.argv[2]}/index.mjs`);
const x = { data: Float32Array.from({ length: 60 * 8 * 64 }, (_, i) => Math.sin(i)), shape: [8, 3, 64, 20] };
const shift = new BigInt64Array(8).fill(21n);
const found = [];
for (const options of [{ threads: 1 }, { threads: 2 }, { threads: 2, worker: true }]) {
  const model = await load({ ...options, device: "wasm" });
  for (let round = 0; round < 20; round += 1) await model.run({ x, shift });
  const { y, moved } = await model.run({ x, shift });
  found.push({ threads: model.threads, reason: model.threadsReason, y: Array.from(y.data), moved: Number(moved.data[7]) });
}
// It ends although no model is disposed of: workers do not keep a program alive.
console.log(JSON.stringify(found));
