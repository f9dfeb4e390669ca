// The worker: splits the text, computes the vectors of its passages in batches, and answers queries. Between two batches
// it looks for messages, so a query waits for one batch at most. Sentences of a batch have different lengths; the model
// takes them as they are, without padding.

import { load, MemoryError, requirements, type LoadOptions, type Model } from '../minilm/index.mjs';
import { whenKept } from '../shared/kept';
import type { Reply, Request } from './messages';
import { passagesOf, type Passage } from './passages';
import { Vectors } from './vectors';

/** How many passages answer a query. */
const BEST = 10;
/** A batch should take about this many milliseconds. */
const PACE = 100;
/** Characters of a batch: the fewest, those of the first one, and the most. */
const [FEWEST, FIRST, MOST] = [100, 1500, 40_000];
/** Each batch counts this much less for the speed than the next one. */
const LATELY = 0.8;
/** While passages are computed, answers are given again after this many milliseconds. */
const AGAIN = 250;
/** What WebGPU is measured with: sentences of about the usual lengths. */
const TOKENS = [9, 31, 18, 24, 12, 40, 27, 21].map((length) => new BigInt64Array(length).fill(2000n));
const SAMPLE = { input_ids: TOKENS, token_type_ids: TOKENS.map((ids) => new BigInt64Array(ids.length)) };

let model: Model | null = null;
let choice = new AbortController();
let working = false;

let text = { number: 0, passages: [] as readonly string[] };
let vectors = new Vectors(0);
/** Vectors of passages of the text before. */
let known = new Map<string, Float32Array>();
let characters = FIRST;
let computed = { passages: 0, milliseconds: 0 };

let wanted: { number: number; query: string } | null = null;
let answered: { number: number; vector: Float32Array; milliseconds: number } | null = null;
let lastAnswer = 0;

addEventListener('message', ({ data }: MessageEvent<Request>) => {
  if (data.kind === 'load') {
    void open(data.device);
  } else if (data.kind === 'text') {
    take(data.number, data.text);
  } else {
    wanted = data;
    answered = null;
  }
  void work();
});

function tell(reply: Reply): void {
  postMessage(reply);
}

/** Load the model for a device and use it from now on. If that fails, the one before stays. */
async function open(device: string): Promise<void> {
  choice.abort();
  const { signal } = (choice = new AbortController());
  const start = performance.now();
  try {
    const found = await load({
      device: device as NonNullable<LoadOptions['device']>,
      sample: SAMPLE,
      signal,
      onProgress: ({ loaded, total }) => model ?? tell({ kind: 'loading', loaded, total }),
    });
    if (signal.aborted) {
      found.dispose();
      return;
    }
    model?.dispose();
    model = found;
    computed = { passages: 0, milliseconds: 0 };
    const loading = performance.now() - start;
    tellReady(found, device, loading);
    void found.chosen.then(() => model === found && tellReady(found, device, loading));
    void work();
  } catch (error) {
    if (!signal.aborted) {
      tell({ kind: 'failed', during: 'load', device, message: messageOf(error) });
    }
  }
}

function tellReady(found: Model, chosen: string, loading: number): void {
  const { device, deviceReason: reason, threads } = found;
  const dims = { batch: 1, tokens: 1 };
  const { weights } = found.memory(dims);
  tell({ kind: 'ready', chosen, device, reason, threads, loading, weights });
  void whenKept(() => requirements({ device, dims })).then((kept) => tell({ kind: 'kept', device, kept }));
}

/** Split a new text. Passages that the old one had, too, keep their vectors. */
function take(number: number, whole: string): void {
  const found = passagesOf(whole);
  const bounds = Uint32Array.from(found.flatMap(({ start, end }: Passage) => [start, end]));
  const passages = found.map(({ start, end }) => whole.slice(start, end));
  known = new Map(text.passages.slice(0, vectors.count).map((passage, index) => [passage, vectors.at(index)]));
  text = { number, passages };
  vectors = new Vectors(passages.length);
  computed = { passages: 0, milliseconds: 0 };
  tell({ kind: 'passages', text: number, bounds });
}

/** Do what there is to do, one step after another. Other messages are heard between two steps. */
async function work(): Promise<void> {
  if (working) {
    return;
  }
  working = true;
  while (model && (await step(model))) {
    await nextTask();
  }
  working = false;
}

/** One step: a query, or a batch of passages. Whether there was something to do. */
async function step(using: Model): Promise<boolean> {
  try {
    if (wanted) {
      await answer(using, wanted);
    } else if (vectors.count < text.passages.length) {
      await compute(using);
    } else {
      return false;
    }
  } catch (error) {
    recover(using, error);
  }
  return true;
}

async function answer(using: Model, { number, query }: { number: number; query: string }): Promise<void> {
  const start = performance.now();
  const vector = await using.embed(query);
  if (wanted?.number === number) {
    wanted = null;
    answered = { number, vector, milliseconds: performance.now() - start };
    rank();
  }
}

/** Tell which passages are closest to the query. */
function rank(): void {
  if (answered) {
    const start = performance.now();
    const hits = vectors.closest(answered.vector, BEST);
    lastAnswer = performance.now();
    const milliseconds = answered.milliseconds + lastAnswer - start;
    tell({ kind: 'found', text: text.number, query: answered.number, hits, milliseconds });
  }
}

/** The vectors of the next passages. */
async function compute(using: Model): Promise<void> {
  const { number, passages } = text;
  const batch: string[] = [];
  let end = vectors.count;
  for (let room = characters; end < passages.length && room > 0; end += 1) {
    const passage = passages[end] as string;
    if (!known.has(passage)) {
      batch.push(passage);
      room -= passage.length;
    }
  }
  const start = performance.now();
  const found = await using.embed(batch);
  if (text.number !== number) {
    return;
  }
  const milliseconds = performance.now() - start;
  batch.forEach((passage, index) => known.set(passage, found[index] as Float32Array));
  passages.slice(vectors.count, end).forEach((passage) => vectors.add(known.get(passage) as Float32Array));
  pace(milliseconds);
  computed = {
    passages: LATELY * computed.passages + batch.length,
    milliseconds: LATELY * computed.milliseconds + milliseconds,
  };
  const perSecond = computed.passages / Math.max(computed.milliseconds / 1000, 1e-3);
  tell({ kind: 'indexed', text: number, done: vectors.count, perSecond });
  if (end === passages.length || performance.now() - lastAnswer > AGAIN) {
    rank();
  }
}

/** Choose the size of the next batch by the time of the last one. */
function pace(milliseconds: number): void {
  const factor = milliseconds < PACE / 2 ? 1.5 : milliseconds > PACE * 1.5 ? 0.7 : 1;
  characters = Math.min(MOST, Math.max(FEWEST, characters * factor));
}

/** After a failed run: with smaller batches, or on WebAssembly, which needs no GPU; else the page is told. */
function recover(failed: Model, error: unknown): void {
  if (model !== failed) {
    return; // It was disposed during the run, for another one.
  }
  if (error instanceof MemoryError && characters > FEWEST) {
    characters = Math.max(FEWEST, characters / 4);
    return;
  }
  const { device } = failed;
  model = null;
  failed.dispose();
  tell({ kind: 'failed', during: 'run', device, message: messageOf(error) });
  if (device !== 'wasm') {
    void open('wasm');
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
