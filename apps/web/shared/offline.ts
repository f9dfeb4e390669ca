// Keeps the app for visits without a network, by the service worker that the build makes.

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

/** As `keepOffline`, for a page with a model, whose package keeps large files: whether it has, or could not. */
export async function keepModelOffline(model: Promise<boolean>): Promise<string> {
  const kept = await keepOffline();
  return kept === 'ready' && !(await model) ? 'no room for the model' : kept;
}
