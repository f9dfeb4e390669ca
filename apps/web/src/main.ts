// The page: what is drawn is read at once, on the device that was chosen.

import './style.css';
import { Classifier, type Reading } from './classifier';
import { Drawing } from './drawing';
import { drawExample } from './examples';
import { Pad } from './pad';
import { rasterise } from './raster';
import { Result, sentence } from './result';

const NAMES: Readonly<Record<string, string>> = { auto: 'Auto', webgpu: 'WebGPU', wasm: 'WebAssembly' };
/** A screen reader is told the digit when nothing has changed for so long, in milliseconds. */
const QUIET = 600;
/** Times of so many runs are shown as their median. */
const RUNS = 31;

const drawing = new Drawing();
const status = element('status', HTMLElement);
const progress = element('progress', HTMLProgressElement);
const problem = element('problem', HTMLElement);
const devices = element('devices', HTMLFormElement);
const result = new Result(
  element('digit', HTMLElement),
  element('bars', HTMLElement),
  element('picture', HTMLCanvasElement),
);

let classifier: Classifier | null = null;
let chosen = 'auto';
let times: number[] = [];
let speaking = 0;
let reading: Promise<void> | null = null;
let stale = false;
let choice = new AbortController();
let example = new AbortController();
let nextExample = 0;

new Pad(element('pad', HTMLCanvasElement), drawing, say);
drawing.addEventListener('change', () => void refresh());
element('undo', HTMLButtonElement).addEventListener('click', () => edit(() => drawing.undo()));
element('clear', HTMLButtonElement).addEventListener('click', () => edit(() => drawing.clear()));
element('pad', HTMLCanvasElement).addEventListener('pointerdown', () => example.abort(), { capture: true });
element('example', HTMLButtonElement).addEventListener('click', () =>
  edit(() => {
    void drawExample(nextExample, drawing, example.signal);
    nextExample = (nextExample + 1) % 10;
  }),
);
devices.addEventListener('change', () => void choose(String(new FormData(devices).get('device'))));
void choose(chosen);

if (import.meta.env.PROD && 'serviceWorker' in navigator) {
  void keepOffline();
}

/** Keep the app for visits without a network. */
async function keepOffline(): Promise<void> {
  try {
    await navigator.serviceWorker.register('worker.js');
    await navigator.serviceWorker.ready;
    show('offline', 'ready');
  } catch {
    show('offline', 'not possible here');
  }
}

/** Change the drawing after ending the example that is being drawn. */
function edit(change: () => void): void {
  example.abort();
  example = new AbortController();
  change();
}

/** Load the model for a device. Where that fails, say why and go on with what there is. */
async function choose(device: string): Promise<void> {
  choice.abort();
  const { signal } = (choice = new AbortController());
  devices.ariaBusy = 'true';
  progress.hidden = false;
  problem.hidden = true;
  try {
    const found = await Classifier.load(device, signal, (part) => {
      progress.value = part;
    });
    await use(found);
    chosen = device;
  } catch (error) {
    if (signal.aborted) {
      return;
    }
    report(device, error);
    (devices.elements.namedItem('device') as RadioNodeList).value = chosen;
  }
  progress.hidden = true;
  devices.ariaBusy = 'false';
}

/** Read with this model from now on. */
async function use(found: Classifier): Promise<void> {
  const before = classifier;
  classifier = found;
  times = [];
  showDevice(found);
  await refresh();
  before?.dispose();
}

function report(device: string, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  const going = classifier ? `Still running on ${nameOf(classifier.device)}. ` : '';
  const what = device === 'auto' ? 'The model cannot be loaded.' : `${nameOf(device)} is not available here.`;
  problem.textContent = `${what} ${going}Reason: ${reason}`;
  problem.hidden = false;
}

function showDevice({ device, loading, memory }: Classifier): void {
  show('device', nameOf(device));
  show('loading', milliseconds(loading));
  show('memory', kilobytes(memory.total));
  show('weights', kilobytes(memory.weights));
}

/** Read the drawing as it is; while a reading is under way, once more after it. */
function refresh(): Promise<void> {
  stale = true;
  reading ??= readAll().finally(() => {
    reading = null;
  });
  return reading;
}

async function readAll(): Promise<void> {
  try {
    while (stale) {
      stale = false;
      await readDrawing();
    }
  } catch (error) {
    report('auto', error);
  }
}

async function readDrawing(): Promise<void> {
  clearTimeout(speaking);
  const reader = classifier;
  if (drawing.empty || !reader) {
    result.clear();
    show('time', '–');
    return;
  }
  const picture = rasterise(drawing.strokes);
  const found = await reader.read(picture);
  result.show(picture, found.probabilities);
  showTime(found);
  speaking = window.setTimeout(() => say(sentence(found.probabilities)), QUIET);
}

function showTime({ milliseconds: time }: Reading): void {
  times = [...times, time].slice(-RUNS);
  const sorted = [...times].sort((a, b) => a - b);
  show('time', milliseconds(sorted[Math.floor(sorted.length / 2)] ?? time));
}

/** Tell those who do not see the page. */
function say(text: string): void {
  status.textContent = text;
}

function show(id: string, text: string): void {
  element(`fact-${id}`, HTMLElement).textContent = text;
}

function nameOf(device: string): string {
  return NAMES[device] ?? device;
}

function milliseconds(value: number): string {
  return value < 0.1 ? 'below 0.1 ms' : `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

function kilobytes(bytes: number): string {
  return `${(bytes / 1000).toFixed(0)} kB`;
}

function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) {
    throw new TypeError(`the page has no ${kind.name} '${id}'`);
  }
  return found;
}
