// The page: the model reads the drawing at every change, on the chosen device.

import '../shared/common.css';
import './style.css';
import { keepOffline } from '../shared/offline';
import { element, kilobytes, messageOf, milliseconds, nameOf, show } from '../shared/page';
import { Classifier, type Reading } from './classifier';
import { Drawing } from './drawing';
import { drawExample } from './examples';
import { Pad } from './pad';
import { rasterise } from './raster';
import { Result, sentence } from './result';

/** A screen reader announces the digit when nothing has changed for this many milliseconds. */
const QUIET = 600;
/** The time shown is the median of this many runs. */
const RUNS = 31;

const drawing = new Drawing();
const status = element('status', HTMLElement);
const progress = element('progress', HTMLProgressElement);
const problem = element('problem', HTMLElement);
const devices = element('devices', HTMLFormElement);
const why = element('reason', HTMLElement);
const bars = element('bars', HTMLElement);
const result = new Result(element('digit', HTMLElement), bars, element('picture', HTMLCanvasElement));

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
void keepOffline().then((kept) => show('offline', kept));

/** Change the drawing after ending the example that is being drawn. */
function edit(change: () => void): void {
  example.abort();
  example = new AbortController();
  change();
}

/** Load the model for a device. If that fails, show why and keep the current model. */
async function choose(device: string): Promise<void> {
  choice.abort();
  const { signal } = (choice = new AbortController());
  devices.ariaBusy = 'true';
  problem.hidden = true;
  try {
    await load(device, signal);
  } catch (error) {
    if (!signal.aborted) {
      const what = device === 'auto' ? 'The model cannot be loaded.' : `${nameOf(device)} is not available here.`;
      report(classifier ? `${what} Still running on ${nameOf(classifier.device)}.` : what, error);
    }
  }
  if (!signal.aborted) {
    (devices.elements.namedItem('device') as RadioNodeList).value = chosen;
    devices.ariaBusy = 'false';
  }
}

/** Load the model for a device and use it from now on. */
async function load(device: string, signal: AbortSignal): Promise<void> {
  progress.hidden = false;
  try {
    const found = await Classifier.load(device, signal, (part) => {
      progress.value = part;
    });
    const before = classifier;
    classifier = found;
    chosen = device;
    times = [];
    showDevice(found);
    void found.chosen.then(() => changeDevice(found));
    await refresh();
    before?.dispose();
  } finally {
    progress.hidden = true;
  }
}

/** After a failed run, for instance because the device is lost, go on with WebAssembly, which every browser has. */
function recover(failed: Classifier, error: unknown): void {
  const on = nameOf(failed.device);
  classifier = null;
  if (failed.device === 'wasm') {
    report(`The model has failed on ${on}. Reload the page.`, error);
  } else {
    void choose('wasm').then(() => report(`The model has failed on ${on}, and is loaded for ${nameOf('wasm')}.`, error));
  }
}

function report(what: string, error: unknown): void {
  problem.textContent = `${what} Reason: ${messageOf(error)}`;
  problem.hidden = false;
}

/** Called when the device is final: show it, and why it was chosen. */
function changeDevice(on: Classifier): void {
  if (classifier === on) {
    times = [];
    showDevice(on);
  }
}

function showDevice({ device, reason, loading, memory }: Classifier): void {
  show('device', nameOf(device));
  why.textContent = `Auto is ${nameOf(device)}: ${reason}.`;
  why.hidden = chosen !== 'auto';
  show('loading', milliseconds(loading));
  show('memory', kilobytes(memory.total));
  show('weights', kilobytes(memory.weights));
}

/** Read the drawing. If a reading is under way, the drawing is read once more after it. */
function refresh(): Promise<void> {
  stale = true;
  bars.ariaBusy = 'true';
  reading ??= readAll();
  return reading;
}

async function readAll(): Promise<void> {
  // Waits so that simultaneous changes are read together. No change can come between the loop's end and the return.
  await null;
  while (stale) {
    stale = false;
    clearTimeout(speaking);
    if (drawing.empty || !classifier) {
      result.clear();
      show('time', '–');
    } else {
      await readDrawing(classifier);
    }
  }
  reading = null;
  bars.ariaBusy = 'false';
}

async function readDrawing(reader: Classifier): Promise<void> {
  const picture = rasterise(drawing.strokes);
  try {
    const found = await reader.read(picture);
    result.show(picture, found.probabilities);
    showTime(found);
    speaking = window.setTimeout(() => say(sentence(found.probabilities)), QUIET);
  } catch (error) {
    recover(reader, error);
  }
}

function showTime({ milliseconds: time }: Reading): void {
  times = [...times, time].slice(-RUNS);
  const sorted = [...times].sort((a, b) => a - b);
  show('time', milliseconds(sorted[Math.floor(sorted.length / 2)] ?? time));
}

/** Announce a text to screen readers. */
function say(text: string): void {
  status.textContent = text;
}
