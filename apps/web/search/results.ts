// The list of the closest passages. Each is a button; the arrow keys move between them and the query.

import type { Hit } from './vectors';

/** Characters of a passage that the list shows. */
const LONGEST = 320;

export class Results {
  readonly #list: HTMLElement;
  readonly #query: HTMLInputElement;
  readonly #onChoice: (passage: number) => void;

  constructor(list: HTMLElement, query: HTMLInputElement, onChoice: (passage: number) => void) {
    this.#list = list;
    this.#query = query;
    this.#onChoice = onChoice;
    const keys = (event: KeyboardEvent) => this.#onKey(event);
    list.addEventListener('keydown', keys);
    query.addEventListener('keydown', keys);
  }

  /** Show passages, the closest first. */
  show(hits: readonly Hit[], textOf: (passage: number) => string): void {
    // Elements are kept, so that the keyboard's focus stays.
    while (this.#list.children.length > hits.length) {
      this.#list.lastElementChild?.remove();
    }
    hits.forEach((hit, index) => {
      const item = this.#list.children[index] ?? this.#list.appendChild(made());
      const [text, score, bar] = ['.passage', '.score', '.strength'].map((part) => item.querySelector<HTMLElement>(part));
      const whole = textOf(hit.passage);
      if (text && score && bar) {
        text.textContent = whole.length > LONGEST ? `${whole.slice(0, LONGEST).trimEnd()} …` : whole;
        score.textContent = hit.score.toFixed(2);
        bar.style.setProperty('--part', String(Math.max(0, hit.score)));
      }
      const button = item.firstElementChild as HTMLButtonElement;
      button.onclick = () => this.#onChoice(hit.passage);
    });
  }

  #onKey(event: KeyboardEvent): void {
    const buttons = [...this.#list.querySelectorAll('button')];
    const places: HTMLElement[] = [this.#query, ...buttons];
    const at = places.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      places[at + step]?.focus();
    } else if (event.key === 'Enter' && at === 0) {
      buttons[0]?.click();
    } else if (event.key === 'Escape' && at > 0) {
      this.#query.focus();
    }
  }
}

function made(): HTMLLIElement {
  const item = document.createElement('li');
  item.innerHTML = `<button type="button">
    <span class="passage"></span>
    <span class="likeness"><span class="strength" aria-hidden="true"></span><span class="unseen">Score </span><span class="score"></span></span>
  </button>`;
  return item;
}
