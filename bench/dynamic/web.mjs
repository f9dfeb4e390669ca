// Times a web package of a dynamic model in node: `node web.mjs PACKAGE GIVEN CLOCK TURNS SECONDS`.
//
// GIVEN is a JSON file with `instances`, as JavaScript gives them, and `words`, the same encoded. It prints as JSON the
// milliseconds of runs with the policy of the package and with `alone`, in turn, and the results.

import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const CLOCKS = {
  wall: () => performance.now(),
  cpu: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e3;
  },
};
const WARM_SECONDS = 0.5;

const [folder, file, clock, turns, seconds] = process.argv.slice(2);
const read = CLOCKS[clock];
const { load } = await import(`${pathToFileURL(folder)}/index.mjs`);
const model = await load({ threads: 1 });
const { instances, words, policies } = JSON.parse(readFileSync(file, 'utf8'));
const { elements } = words;
const given = {
  instances: Int32Array.from(words.instances),
  roots: { data: Int32Array.from(words.roots.flat()), shape: [words.roots.length, words.roots[0].length] },
  ...(elements && { elements: Float32Array.from(elements) }),
};

async function turn(policy, length) {
  const found = [];
  const inputs = { ...given, policy: { data: Int32Array.of(policy), shape: [] } };
  const end = performance.now() + 1e3 * length;
  while (found.length < 3 || performance.now() < end) {
    const start = read();
    await model.run(inputs);
    found.push(read() - start);
  }
  return found;
}

const plain = (value) =>
  ArrayBuffer.isView(value) ? Array.from(value, Number) : Array.isArray(value) ? value.map(plain) : value;

const times = policies.map(() => []);
for (const policy of policies) {
  await turn(policy, WARM_SECONDS);
}
for (let number = 0; number < Number(turns); ++number) {
  for (const [index, policy] of policies.entries()) {
    times[index].push(...(await turn(policy, Number(seconds))));
  }
}
const results = plain(await model.run(instances));
model.dispose();
console.log(JSON.stringify({ times, results }));
