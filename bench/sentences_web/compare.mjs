// Times texts to vectors with a package and with transformers.js, in turn. The vectors are compared first.

import { median, once } from './turns.mjs';

/**
 * The median seconds of each side, and the largest difference of an element of a vector.
 *
 * `load` is that of the package, `pipe` a pipeline of transformers.js, `batches` the sizes of its batches.
 */
export async function compare({ load, pipe, texts, device, rounds, batches }) {
  const model = await load({ device, threads: 1, cache: false });
  const sides = { deploykit: () => model.embed(texts) };
  for (const size of batches) {
    sides[`transformers.js, batches of ${size}`] = () => embed(pipe, texts, size);
  }
  const vectors = await model.embed(texts);
  let error = 0;
  for (const name of Object.keys(sides).slice(1)) {
    const others = await sides[name]();
    vectors.forEach((vector, row) => vector.forEach((x, i) => (error = Math.max(error, Math.abs(x - others[row][i])))));
  }
  const times = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const name of Object.keys(sides)) {
      times[name].push((await once(sides[name])) / 1000);
    }
  }
  model.dispose();
  return { error, seconds: Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)])) };
}

/** As its users do it: sorted by length, so that little is padded. */
async function embed(pipe, texts, size) {
  const order = texts.map((_, index) => index).sort((a, b) => texts[b].length - texts[a].length);
  const found = new Array(texts.length);
  for (let start = 0; start < order.length; start += size) {
    const part = order.slice(start, start + size);
    const { data, dims } = await pipe(part.map((index) => texts[index]), { pooling: 'mean', normalize: true });
    part.forEach((index, row) => (found[index] = data.slice(row * dims[1], (row + 1) * dims[1])));
  }
  return found;
}
