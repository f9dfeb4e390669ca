// Shows the text with its passages, and marks those that answer a query.

import { paragraphsOf, type Passage } from './passages';
import type { Hit } from './vectors';

export class Reading {
  /** The elements of each passage; it has several if it begins with a heading. */
  #parts: HTMLElement[][] = [];
  #marked: HTMLElement[] = [];
  #current: HTMLElement[] = [];
  readonly #place: HTMLElement;

  constructor(place: HTMLElement) {
    this.#place = place;
  }

  /** Show a text. Its passages are in order. */
  show(text: string, passages: readonly Passage[]): void {
    this.#marked = this.#current = [];
    this.#parts = passages.map(() => []);
    let next = 0;
    const paragraphs = paragraphsOf(text).map(({ start, end }) => {
      const made = document.createElement('p');
      let at = start;
      for (; (passages[next]?.start ?? end) < end; next += 1) {
        const passage = passages[next] as Passage;
        const from = Math.max(passage.start, start);
        made.append(text.slice(at, from), this.#part(text.slice(from, Math.min(passage.end, end)), next));
        at = Math.min(passage.end, end);
        if (passage.end > end) {
          made.className = 'heading';
          break;
        }
      }
      made.append(text.slice(at, end).trimEnd());
      return made;
    });
    this.#place.replaceChildren(...paragraphs);
    this.#place.scrollTop = 0;
  }

  #part(text: string, passage: number): HTMLElement {
    const made = document.createElement('span');
    made.textContent = text;
    this.#parts[passage]?.push(made);
    return made;
  }

  /** Mark the passages of these hits, the closest first, each as much as its score compares with the others. */
  mark(hits: readonly Hit[]): void {
    this.#marked.forEach((part) => part.classList.remove('hit'));
    const [most, least] = [hits[0]?.score ?? 0, hits.at(-1)?.score ?? 0];
    this.#marked = hits.flatMap(({ passage, score }) => {
      const parts = this.#parts[passage] ?? [];
      const strength = most > least ? (score - least) / (most - least) : 1;
      for (const part of parts) {
        part.classList.add('hit');
        part.style.setProperty('--strength', strength.toFixed(2));
      }
      return parts;
    });
  }

  /** Bring a passage into view and point it out; with null, point out none. */
  reveal(passage: number | null): void {
    this.#current.forEach((part) => part.classList.remove('current'));
    this.#current = passage === null ? [] : (this.#parts[passage] ?? []);
    this.#current.forEach((part) => part.classList.add('current'));
    const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
    this.#current[0]?.scrollIntoView({ block: 'center', behavior });
  }
}
