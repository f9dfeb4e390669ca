// The page: finds the passages of a text that are closest in meaning to what one types. A worker does the computing.

import '../shared/common.css';
import './search.css';
import { keepModelOffline } from '../shared/offline';
import { element, megabytes, milliseconds, nameOf, show } from '../shared/page';
import { Editor } from './editor';
import sample from './lighthouse.txt?raw';
import type { Reply, Request } from './messages';
import type { Passage } from './passages';
import { Reading } from './reading';
import { Results } from './results';

/** Queries that the sample answers in other words. */
const IDEAS = ['Can I bring my dog?', 'vegetarian food', 'where can I see birds?', 'what does it cost?', 'is the water clean?'];
/** A query is asked when nothing was typed for this many milliseconds. */
const TYPING = 60;
/** A screen reader announces the results when nothing has changed for this many milliseconds. */
const QUIET = 800;
/** Lower scores are no answers, nor are those below this part of the best one. */
const [LEAST, PART] = [0.2, 0.5];

type Kind<Name extends Reply['kind']> = Extract<Reply, { kind: Name }>;

const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
const query = element('query', HTMLInputElement);
const devices = element('devices', HTMLFormElement);
const problem = element('problem', HTMLElement);
const fetching = element('fetching', HTMLElement);
const why = element('reason', HTMLElement);
const hint = element('hint', HTMLElement);
const again = element('again', HTMLButtonElement);
const reading = new Reading(element('text', HTMLElement));
const results = new Results(element('hits', HTMLElement), query, (passage) => reading.reveal(passage));
const editor = new Editor(useText, report);

/** The text, how often it has changed, and how many of its passages have vectors. */
const text = { number: 0, whole: '', passages: [] as Passage[], read: 0 };
let asked = 0;
let chosen = 'auto';
let device = '';
let typing = 0;
let speaking = 0;

worker.addEventListener('message', ({ data }: MessageEvent<Reply>) => hear(data));
worker.addEventListener('error', ({ message }) => {
  report(`The part of this page that computes has failed. Reload the page. ${message ? `Reason: ${message}` : ''}`);
});
query.addEventListener('input', () => {
  asked += 1; // Answers to what was there before are no longer wanted.
  clearTimeout(typing);
  typing = window.setTimeout(ask, TYPING);
});
devices.addEventListener('change', () => choose(String(new FormData(devices).get('device'))));
again.addEventListener('click', () => choose(chosen));
document.addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
  if (event.key === '/' && !isTyping) {
    event.preventDefault();
    query.select();
  }
});
editor.take(sample);
showIdeas(IDEAS);
choose(chosen);

function tell(request: Request): void {
  worker.postMessage(request);
}

function hear(reply: Reply): void {
  if (reply.kind === 'loading') {
    showLoading(reply);
  } else if (reply.kind === 'ready') {
    showReady(reply);
  } else if (reply.kind === 'kept') {
    showKept(reply);
  } else if (reply.kind === 'failed') {
    showFailure(reply);
  } else if (reply.text === text.number) {
    if (reply.kind === 'passages') {
      showText(reply);
    } else if (reply.kind === 'indexed') {
      showIndexed(reply);
    } else if (reply.query === asked) {
      showFound(reply);
    }
  }
}

/** Load the model for a device. */
function choose(wanted: string): void {
  problem.hidden = true;
  devices.ariaBusy = 'true';
  tell({ kind: 'load', device: wanted });
}

function useText(whole: string): void {
  text.number += 1;
  text.whole = whole;
  text.passages = [];
  text.read = 0;
  problem.hidden = true;
  element('counted', HTMLElement).textContent = '';
  showIdeas([]);
  tell({ kind: 'text', number: text.number, text: whole });
}

function ask(): void {
  clearTimeout(typing);
  asked += 1;
  reading.reveal(null);
  element('found', HTMLElement).scrollTop = 0;
  tell({ kind: 'query', number: asked, query: query.value });
  if (!query.value.trim()) {
    clearFound();
  }
}

function clearFound(): void {
  clearTimeout(speaking);
  results.show([], () => '');
  reading.mark([]);
  element('took', HTMLElement).textContent = '';
  hint.textContent = 'Type a question or a few words. The words need not be in the text.';
}

function showIdeas(ideas: readonly string[]): void {
  const buttons = ideas.map((idea) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = idea;
    button.addEventListener('click', () => {
      query.value = idea;
      ask();
    });
    return button;
  });
  element('ideas', HTMLElement).replaceChildren(...buttons);
}

function showLoading({ loaded, total }: Kind<'loading'>): void {
  fetching.hidden = loaded >= total;
  element('progress', HTMLProgressElement).value = loaded / total;
  element('fetched', HTMLElement).textContent = `Loading the model: ${megabytes(loaded)} of ${megabytes(total)}`;
}

function showReady(ready: Kind<'ready'>): void {
  fetching.hidden = true;
  devices.ariaBusy = 'false';
  ({ chosen, device } = ready);
  (devices.elements.namedItem('device') as RadioNodeList).value = chosen;
  const threads = device === 'wasm' && ready.threads > 1 ? `, ${ready.threads} threads` : '';
  show('device', `${nameOf(device)}${threads}`);
  show('loading', `${(ready.loading / 1000).toFixed(1)} s`);
  show('weights', megabytes(ready.weights));
  why.textContent = `Auto is ${nameOf(device)}: ${ready.reason}.`;
  why.hidden = chosen !== 'auto';
}

function showKept({ device: of, kept }: Kind<'kept'>): void {
  if (of === device) {
    void keepModelOffline(Promise.resolve(kept)).then((state) => show('offline', state));
  }
}

/** What has failed, and what happens next. */
function showFailure({ during, device: failed, message }: Kind<'failed'>): void {
  fetching.hidden = true;
  devices.ariaBusy = 'false';
  (devices.elements.namedItem('device') as RadioNodeList).value = chosen;
  if (during === 'run') {
    device = '';
  }
  if (during === 'load' && device) {
    report(`${nameOf(failed)} is not available here. Still running on ${nameOf(device)}. Reason: ${message}`);
  } else if (during === 'load') {
    report(`The model cannot be loaded. Reason: ${message}`, true);
  } else if (failed === 'wasm') {
    report(`The model has failed on ${nameOf(failed)}. Reason: ${message}`, true);
  } else {
    report(`The model has failed on ${nameOf(failed)}, and is loaded for ${nameOf('wasm')}. Reason: ${message}`);
  }
}

/** Show a problem; loading may be tried again. */
function report(what: string, loadable = false): void {
  element('what', HTMLElement).textContent = what;
  again.hidden = !loadable;
  problem.hidden = false;
}

function showText({ bounds }: Kind<'passages'>): void {
  text.passages = Array.from({ length: bounds.length / 2 }, (_, index) => ({
    start: bounds[2 * index] as number,
    end: bounds[2 * index + 1] as number,
  }));
  reading.show(text.whole, text.passages);
  element('counted', HTMLElement).textContent = `${counted(text.passages.length)} passages`;
  showIndexed({ kind: 'indexed', text: text.number, done: 0, perSecond: 0 });
  ask();
}

function showIndexed({ done, perSecond }: Kind<'indexed'>): void {
  const all = text.passages.length;
  text.read = done;
  element('reading-progress', HTMLElement).hidden = done === all;
  element('indexed', HTMLProgressElement).value = done / Math.max(all, 1);
  const speed = perSecond > 0 ? `${counted(Math.round(perSecond))} per second` : '';
  element('indexed-text', HTMLElement).textContent = `Reading: ${counted(done)} of ${counted(all)} ${speed && `(${speed})`}`;
  if (speed) {
    show('speed', speed.replace(' per second', ' / s'));
  }
}

function showFound({ hits, milliseconds: time }: Kind<'found'>): void {
  if (!query.value.trim()) {
    return;
  }
  const most = hits[0]?.score ?? 0;
  const close = hits.filter(({ score }) => score >= Math.max(LEAST, PART * most));
  results.show(close, textOf);
  reading.mark(close);
  show('query', milliseconds(time));
  element('took', HTMLElement).textContent = `in ${milliseconds(time)}`;
  const nothing = text.read < text.passages.length ? 'Nothing so far.' : 'Nothing in the text comes close to this.';
  hint.textContent = close.length ? '' : nothing;
  const [best] = close;
  clearTimeout(speaking);
  speaking = window.setTimeout(() => {
    const spoken = best ? `${close.length} passages. The closest: ${textOf(best.passage)}` : hint.textContent;
    element('status', HTMLElement).textContent = spoken;
  }, QUIET);
}

function textOf(passage: number): string {
  const { start, end } = text.passages[passage] ?? { start: 0, end: 0 };
  return text.whole.slice(start, end).replace(/\n\s*\n/g, ' · ').replace(/\s+/g, ' ');
}

function counted(number: number): string {
  return number.toLocaleString('en');
}
