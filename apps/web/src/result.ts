// Shows what the model reads: the digit, a bar for each class, and the picture that it got.

import { SIZE } from './raster';

const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 0 });

/** Below this the digit is shown as a guess. */
const SURE = 0.6;

export class Result {
  readonly #digit: HTMLElement;
  readonly #picture: HTMLCanvasElement;
  readonly #bars: HTMLLIElement[];

  constructor(digit: HTMLElement, list: HTMLElement, picture: HTMLCanvasElement) {
    this.#digit = digit;
    this.#picture = picture;
    this.#picture.width = this.#picture.height = SIZE;
    this.#bars = Array.from({ length: 10 }, (_, index) => bar(index));
    list.replaceChildren(...this.#bars);
    this.clear();
  }

  show(picture: Float32Array, probabilities: Float32Array): void {
    const best = bestOf(probabilities);
    this.#digit.textContent = String(best);
    this.#digit.dataset['sure'] = String((probabilities[best] ?? 0) >= SURE);
    this.#bars.forEach((item, index) => setBar(item, probabilities[index] ?? 0, index === best));
    this.#paint(picture);
  }

  clear(): void {
    this.#digit.textContent = '?';
    this.#digit.dataset['sure'] = 'false';
    this.#bars.forEach((item) => setBar(item, 0, false));
    this.#paint(new Float32Array(SIZE * SIZE));
  }

  /** Draw the picture in the colour of ink. */
  #paint(picture: Float32Array): void {
    const context = this.#picture.getContext('2d');
    context?.clearRect(0, 0, SIZE, SIZE);
    picture.forEach((ink, index) => {
      if (context && ink > 0) {
        context.globalAlpha = ink;
        context.fillStyle = getComputedStyle(this.#picture).color;
        context.fillRect(index % SIZE, Math.floor(index / SIZE), 1, 1);
      }
    });
  }
}

/** The sentence for screen readers. */
export function sentence(probabilities: Float32Array): string {
  const best = bestOf(probabilities);
  return `This looks like ${best}, ${percent.format(probabilities[best] ?? 0)} sure.`;
}

function bestOf(probabilities: Float32Array): number {
  return probabilities.indexOf(Math.max(...probabilities));
}

function bar(digit: number): HTMLLIElement {
  const item = document.createElement('li');
  const parts = ['name', 'track', 'value'].map((name) => {
    const part = document.createElement('span');
    part.className = name;
    return part;
  });
  const [name, track] = parts;
  if (name && track) {
    name.textContent = String(digit);
    track.ariaHidden = 'true';
  }
  item.append(...parts);
  return item;
}

function setBar(item: HTMLLIElement, probability: number, best: boolean): void {
  item.style.setProperty('--part', probability.toFixed(4));
  item.classList.toggle('best', best);
  const value = item.querySelector('.value');
  if (value) {
    value.textContent = percent.format(probability);
  }
}
