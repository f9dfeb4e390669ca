// Runs artifacts on WebGPU in a page, for the Python process that serves the page: it fetches jobs from `/job` and
// posts replies to `/reply`. The header of a job names the artifact's folder, and may ask to close its model. It does
// not ship.

import { failure, packed, perform } from './jobs.mjs';

/** @type {Map<string, Parameters<typeof perform>[0]>} */
const models = new Map();

for (;;) {
  const answer = await fetch('/job');
  if (answer.status === 200) {
    const reply = await work(new Uint8Array(await answer.arrayBuffer())).catch(failure);
    await fetch('/reply', { method: 'POST', body: new Blob(packed(reply)) });
  }
}

/**
 * @param {Uint8Array<ArrayBuffer>} message
 * @returns {Promise<import('./jobs.mjs').Reply>}
 */
async function work(message) {
  let at = 4 + new DataView(message.buffer).getUint32(0, true);
  const { folder, close, ...request } = JSON.parse(new TextDecoder().decode(message.subarray(4, at)));
  if (close) {
    models.get(folder)?.dispose();
    models.delete(folder);
    return {};
  }
  const data = (request.inputs ?? []).map((/** @type {import('./jobs.mjs').Header} */ { bytes }) => {
    at += bytes;
    return message.subarray(at - bytes, at);
  });
  const model = models.get(folder) ?? (await opened(folder));
  return perform(model, request, data);
}

/** @param {string} folder */
async function opened(folder) {
  const { load } = await import(`${folder}index.mjs`);
  const model = await load({ device: 'webgpu', cache: false });
  models.set(folder, model);
  return model;
}
