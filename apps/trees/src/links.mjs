// What belongs together: a node of a tree and its square in the schedule, and all nodes of a launch.

import { kindOf, markedText } from './svg.mjs';

/** @typedef {import('./engine.mjs').Use} Use */

const NEXT = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export class Links {
  #root;
  #chosen;
  /** @type {Map<string, Use>} */
  #uses = new Map();
  /** @type {Use[][]} */
  #launches = [];

  /**
   * @param {HTMLElement} root what holds the pictures
   * @param {{ shown: (text: string) => void, chosen: (launch: number) => void }} listener `shown` gets a sentence on
   *   what is pointed at, or none; `chosen` the launch that is clicked in the schedule
   */
  constructor(root, { shown, chosen }) {
    this.#root = root;
    this.#chosen = chosen;
    this.shown = shown;
    for (const event of /** @type {const} */ (['pointerover', 'focusin'])) {
      root.addEventListener(event, ({ target }) => this.#point(/** @type {Element} */ (target)));
    }
    for (const event of /** @type {const} */ (['pointerleave', 'focusout'])) {
      root.addEventListener(event, () => this.clear());
    }
    root.addEventListener('click', ({ target }) => this.#choose(/** @type {Element} */ (target)));
    root.addEventListener('keydown', (event) => this.#key(event));
  }

  /** @param {Use[][]} launches */
  reset(launches) {
    this.#launches = launches;
    this.#uses = new Map(launches.flat().map((use) => [use.id, use]));
    this.clear();
  }

  /**
   * Show how far the run is.
   * @param {number} done launches
   */
  progress(done) {
    const last = this.#launches.length - 1;
    for (const [id, { launch }] of this.#uses) {
      for (const each of this.#marks(id)) {
        each.dataset.state = launch >= done ? 'later' : launch === done - 1 && launch < last ? 'last' : 'done';
      }
    }
    const finished = new Set(this.#launches.slice(0, done).flat().filter((use) => use.answers).map((use) => use.expression));
    for (const card of /** @type {NodeListOf<HTMLElement>} */ (this.#root.querySelectorAll('.card'))) {
      card.dataset.done = String(finished.has(Number(card.dataset.expression)));
    }
  }

  clear() {
    for (const each of this.#root.querySelectorAll('[data-hot]')) {
      each.removeAttribute('data-hot');
    }
    for (const heading of this.#root.querySelectorAll('h3:has(mark)')) {
      heading.textContent = heading.textContent;
    }
    delete this.#root.dataset.pointing;
    this.shown('');
  }

  /** @param {string} id */
  #marks(id) {
    return /** @type {NodeListOf<SVGElement>} */ (this.#root.querySelectorAll(`[data-use='${id}']`));
  }

  /**
   * The launch of an element, and the use if it stands for one.
   * @param {Element} element
   */
  #meant(element) {
    const use = this.#uses.get(element.closest('[data-use]')?.getAttribute('data-use') ?? '');
    const launch = use?.launch ?? element.closest('[data-launch]')?.getAttribute('data-launch');
    return { use, launch: launch === undefined || launch === null ? undefined : Number(launch) };
  }

  /** @param {Element} element */
  #point(element) {
    const { use, launch } = this.#meant(element);
    this.clear();
    if (launch === undefined) {
      return;
    }
    this.#root.dataset.pointing = 'true';
    this.#root.querySelector(`[data-launch='${launch}']`)?.setAttribute('data-hot', 'launch');
    for (const each of this.#launches[launch]) {
      this.#marks(each.id).forEach((mark) => mark.setAttribute('data-hot', each === use ? 'self' : 'mate'));
    }
    if (use) {
      const heading = this.#root.querySelector(`[data-expression='${use.expression}'] h3`);
      heading?.replaceChildren(...markedText(heading.textContent ?? '', use.tree));
    }
    this.shown(this.#sentence(launch, use));
  }

  /**
   * @param {number} launch
   * @param {Use | undefined} use
   */
  #sentence(launch, use) {
    const uses = this.#launches[launch];
    const trees = new Set(uses.map((each) => each.expression)).size;
    const which = `Launch ${launch + 1} of ${this.#launches.length}`;
    const what = `${uses.length} × “${kindOf(uses[0]).name}”`;
    const where = trees > 1 ? `from ${trees} expressions` : `from expression ${uses[0].expression + 1}`;
    const own = use && uses.length > 1 ? `; this one is in expression ${use.expression + 1}` : '';
    return `${which}: ${what} ${where}${own}`;
  }

  /** @param {Element} element */
  #choose(element) {
    const { launch } = this.#meant(element);
    if (launch !== undefined && element.closest('[data-launch]')) {
      this.#chosen(launch);
    }
  }

  /** Arrows move within a picture, Enter chooses. @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {SVGElement} */ (event.target);
    const picture = target.closest('svg');
    if (!picture) {
      return;
    }
    if (event.key === 'Enter' || event.key === ' ') {
      this.#choose(target);
      event.preventDefault();
    } else if (event.key in NEXT) {
      const stops = /** @type {SVGElement[]} */ ([...picture.querySelectorAll('[tabindex]')]);
      const next = stops[stops.indexOf(target) + NEXT[/** @type {keyof typeof NEXT} */ (event.key)]];
      if (next) {
        target.setAttribute('tabindex', '-1');
        next.setAttribute('tabindex', '0');
        next.focus();
      }
      event.preventDefault();
    }
  }
}
