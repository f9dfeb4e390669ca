// Splits long work into tasks, so that the engine can do other work in between.

/** Wait until the engine has done all earlier tasks. A timer would wait for seconds in a background tab. */
export function nextTask() {
  return new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/**
 * Work on one thing after another, each in a task of its own.
 * @template T
 * @param {readonly T[]} things
 * @param {(thing: T) => Promise<void>} work
 */
export async function inTasks(things, work) {
  for (const thing of things) {
    await work(thing);
    await nextTask();
  }
}

/**
 * Work on so many things at the same time, in their order. If one fails, no other one is begun.
 * @template T
 * @param {readonly T[]} things
 * @param {number} count
 * @param {(thing: T) => Promise<void>} work
 */
export async function inLanes(things, count, work) {
  const rest = [...things];
  const lane = async () => {
    for (let thing = rest.shift(); thing !== undefined; thing = rest.shift()) {
      await work(thing);
    }
  };
  try {
    await Promise.all(Array.from({ length: count }, lane));
  } finally {
    rest.length = 0;
  }
}

/** Work that waits for all earlier work, in the order in which it was asked for. */
export class Turns {
  /** How much work has not ended; if there is any, more of it has to wait. */
  unfinished = 0;
  /** @type {Promise<unknown> | undefined} */
  #last;

  /**
   * Do `work` at once, or when all earlier work is done.
   * @template T
   * @param {AbortSignal | undefined} signal ends the wait
   * @param {() => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  take(signal, work) {
    const earlier = this.unfinished > 0 && this.#last;
    const turn = async () => {
      this.unfinished += 1;
      try {
        if (earlier) {
          // Between two turns the page can do its own work, and abort.
          await earlier.then(nextTask);
        }
        signal?.throwIfAborted();
        return await work();
      } finally {
        this.unfinished -= 1;
      }
    };
    const result = turn();
    this.#last = result.catch(() => {});
    return result;
  }
}
