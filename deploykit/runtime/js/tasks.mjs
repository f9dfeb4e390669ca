// Turns of the engine: what takes long lets others have theirs.

/** The end of all that the engine has to do before. Timers would wait for seconds in a tab in the background. */
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
 * Work on one thing after the other, between which others have their turn.
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
