// Waits until a package has kept the files of its model.

/** Between two looks, and how long to wait, in milliseconds. */
const PAUSE = 300;
const PATIENCE = 60_000;

/** Wait until nothing is left to download; false if that does not happen, as where there is no room. */
export async function whenKept(requirements: () => Promise<{ readonly download: number }>): Promise<boolean> {
  const end = performance.now() + PATIENCE;
  while ((await requirements()).download > 0) {
    if (performance.now() > end) {
      return false;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  return true;
}
