// Times sides in turn, for the pages of benchmarks.

const PAUSE = 50;
const LONG = 300;

/** The median of times. */
export const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1];

/** The milliseconds of a call. */
export async function once(call) {
  const begin = performance.now();
  await call();
  return performance.now() - begin;
}

/**
 * The median milliseconds of each of `sides`, functions that return promises, in about `seconds` in total and at least
 * `turns` turns. `expected` may tell the milliseconds of sides; a long run is not warmed up.
 */
export async function inTurn(sides, seconds, { turns = 8, expected = {} } = {}) {
  const names = Object.keys(sides);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  for (let turn = 0; turn < turns; turn += 1) {
    for (const name of names) {
      // Threads of the other side spin for a while before they sleep.
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      if (!(expected[name] > LONG)) await sides[name]();
      const end = performance.now() + (seconds * 1000) / turns / names.length;
      do {
        times[name].push(await once(sides[name]));
      } while (performance.now() < end);
    }
  }
  return Object.fromEntries(names.map((name) => [name, median(times[name])]));
}
