// `check(base)`: whether the package at `base` gives the same results with one, two and three threads. In a worker, it
// is called by a message.

export async function check(base) {
  const { load } = await import(`${base}/small/index.mjs`);
  const models = await Promise.all([1, 2, 3].map((threads) => load({ threads, cache: false })));
  const threads = models.map((model) => model.threads);
  let same = true;
  for (const [n, h] of [[1, 1], [8, 64], [3, 33], [8, 64], [2, 5]]) {
    const x = { data: Float32Array.from({ length: 60 * n * h }, (_, i) => Math.sin(i)), shape: [n, 3, h, 20] };
    const feeds = { x, shift: new BigInt64Array(n).fill(21n) };
    const [one, ...others] = await Promise.all(models.map((model) => model.run(feeds)));
    for (const { y } of others) {
      same &&= y.data.every((value, index) => value === one.y.data[index]);
    }
  }
  models.forEach((model) => model.dispose());
  return { threads, same, after: models[2].threads };
}

if (!globalThis.document) {
  onmessage = async ({ data }) => postMessage(await check(data).catch(String));
}
