// Keeps the app for visits without a network, by the service worker that the build makes.

/** Between two looks whether large files are kept, and how long to wait for them, in milliseconds. */
const PAUSE = 300;
const PATIENCE = 60_000;

/** Keep the app's files; says how that went. While the app is developed, nothing is kept. */
export async function keepOffline(): Promise<string> {
  if (!import.meta.env.PROD) {
    return '–';
  }
  try {
    await navigator.serviceWorker.register('worker.js');
    await navigator.serviceWorker.ready;
    return 'ready';
  } catch {
    return 'not possible here';
  }
}

/**
 * Wait until the large files of a model that is loaded on this device are kept, which its package does; says how that
 * went.
 */
export async function keepModelOffline(device: string): Promise<string> {
  const kept = await keepOffline();
  if (kept !== 'ready') {
    return kept;
  }
  const end = performance.now() + PATIENCE;
  while (!(await areKept(device))) {
    if (performance.now() > end) {
      return 'no room for the model';
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  return 'ready';
}

/** Ask the service worker whether the large files for a device are in a cache. */
async function areKept(device: string): Promise<boolean> {
  const { active } = await navigator.serviceWorker.ready;
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = ({ data }: MessageEvent<boolean>) => resolve(data);
    active?.postMessage(device, [port2]);
  });
}
