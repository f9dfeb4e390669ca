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
