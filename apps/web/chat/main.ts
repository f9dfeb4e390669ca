// The page: a conversation with a language model, which runs in a worker. Nothing large is fetched before it is asked for;
// at later visits the model is there at once.

import '../shared/common.css';
import './chat.css';
import { load, requirements, type Message, type RemoteModel } from '../smol/index.mjs';
import { Conversation } from '../smol/runtime/conversation.mjs';
import { whenKept } from '../shared/kept';
import { keepModelOffline } from '../shared/offline';
import { element, megabytes, messageOf, show } from '../shared/page';

const IDEAS = ['What is the capital of France?', 'Write a short poem about the sea.', 'Explain rainbows to a child.'];
/** How an answer is written: the most probable one, and others when it is asked for again. */
const SETTINGS = { maxTokens: 512, repetitionPenalty: 1.1 };
const AGAIN = { temperature: 0.4, topP: 0.9 };

const text = element('text', HTMLTextAreaElement);
const start = element('start', HTMLElement);
const loading = element('load', HTMLButtonElement);
const fetching = element('fetching', HTMLElement);
const problem = element('problem', HTMLElement);
const ideas = element('ideas', HTMLElement);

let model: RemoteModel | null = null;
let stopping = new AbortController();

const talk = new Conversation(element('talk', HTMLElement), {
  ask: (messages: Message[], signal: AbortSignal, attempt: number) => {
    const own = attempt > 0 ? { ...AGAIN, seed: attempt } : {};
    return (model as RemoteModel).generate(messages, { ...SETTINGS, ...own, signal });
  },
  onBusy: (busy: boolean) => {
    showState(busy);
    if (!busy) {
      void showContext();
      text.focus({ preventScroll: true });
    }
  },
  onSpeed: ({ first, rate }: { first: number; rate: number | null }) => {
    show('first', `${first.toFixed(2)} s`);
    if (rate !== null) {
      show('speed', `${rate.toFixed(0)} tokens / s`);
    }
  },
  onError: (error: unknown) => report(`There is no answer. Reason: ${messageOf(error)}`),
});

element('form', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  ask(text.value.trim());
});
text.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    ask(text.value.trim());
  }
});
text.addEventListener('input', fit);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    talk.stop();
  } else if (event.key === '/' && event.target !== text) {
    event.preventDefault();
    text.focus();
  }
});
loading.addEventListener('click', () => void open());
element('abort', HTMLButtonElement).addEventListener('click', () => stopping.abort());
element('stop', HTMLButtonElement).addEventListener('click', () => talk.stop());
element('clear', HTMLButtonElement).addEventListener('click', () => {
  talk.clear();
  ['speed', 'first', 'context'].forEach((fact) => show(fact, '–'));
  showState(false);
  text.focus();
});
ideas.append(...IDEAS.map(ideaButton));
void begin();

/** Say what the model needs; load it if it is kept. */
async function begin(): Promise<void> {
  try {
    const { download, cached, memory } = await requirements();
    const goesOn = cached > download / 10 ? `, of which ${megabytes(cached)} are there` : '';
    const size = `${megabytes(download + cached)} are fetched once${goesOn}, and kept for later visits`;
    element('needs', HTMLElement).textContent = `${size}. It takes ${megabytes(memory.total)} of memory.`;
    if (download === 0) {
      await open();
    } else {
      start.hidden = false;
    }
  } catch (error) {
    start.hidden = false;
    report(`The model cannot be reached. Reason: ${messageOf(error)}`);
  }
}

async function open(): Promise<void> {
  stopping = new AbortController();
  problem.hidden = loading.hidden = true;
  start.hidden = fetching.hidden = false;
  const began = performance.now();
  try {
    model = await load({ worker: true, signal: stopping.signal, onProgress: showLoading });
    start.hidden = true;
    show('loading', `${((performance.now() - began) / 1000).toFixed(1)} s`);
    showState(false);
    text.focus({ preventScroll: true });
    void keepModelOffline(whenKept(requirements)).then((kept) => show('offline', kept));
  } catch (error) {
    loading.hidden = false;
    if (!stopping.signal.aborted) {
      report(`The model cannot be loaded. Reason: ${messageOf(error)}`);
    }
  }
  fetching.hidden = true;
}

function ask(question: string): void {
  if (question && model && !talk.busy) {
    problem.hidden = true;
    text.value = '';
    fit();
    void talk.say(question);
  }
}

function ideaButton(idea: string): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = idea;
  button.addEventListener('click', () => ask(idea));
  return button;
}

function showState(busy: boolean): void {
  const begun = talk.messages.length > 0;
  element('send', HTMLButtonElement).hidden = busy;
  element('send', HTMLButtonElement).disabled = model === null;
  element('stop', HTMLButtonElement).hidden = !busy;
  element('clear', HTMLButtonElement).hidden = busy || !begun;
  ideas.hidden = begun || model === null;
}

async function showContext(): Promise<void> {
  show('context', `${await model?.tokenizer.count(talk.messages)} tokens`);
}

function showLoading({ loaded, total }: { loaded: number; total: number }): void {
  element('progress', HTMLProgressElement).value = loaded / total;
  element('fetched', HTMLElement).textContent = `Loading the model: ${megabytes(loaded)} of ${megabytes(total)}`;
}

function report(what: string): void {
  problem.textContent = what;
  problem.hidden = false;
}

/** Make the field as high as its text. */
function fit(): void {
  text.style.height = 'auto';
  text.style.height = `${text.scrollHeight + 2}px`;
}
