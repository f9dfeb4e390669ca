// The run, launch by launch: a slider, steps, and a clock.

/** Between two launches, in milliseconds, and how long a whole run takes at most. */
const BEAT = 500;
const LONGEST = 9000;

export class Replay {
  #slider;
  #play;
  #shown;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #clock;

  /**
   * @param {HTMLElement} controls
   * @param {(done: number) => void} shown called with the number of launches that have run
   */
  constructor(controls, shown) {
    /** @type {<E extends Element>(selector: string) => E} */
    const find = (selector) => /** @type {any} */ (controls.querySelector(selector));
    this.#slider = /** @type {HTMLInputElement} */ (find('input'));
    this.#play = /** @type {HTMLButtonElement} */ (find('.play'));
    this.#shown = shown;
    this.#slider.addEventListener('input', () => this.show(this.#slider.valueAsNumber));
    find('.back').addEventListener('click', () => this.show(this.done - 1));
    find('.forward').addEventListener('click', () => this.show(this.done + 1));
    this.#play.addEventListener('click', () => (this.#clock ? this.pause() : this.play()));
  }

  /** The number of launches that have run. */
  get done() {
    return this.#slider.valueAsNumber;
  }

  get count() {
    return Number(this.#slider.max);
  }

  /**
   * Begin with a run that is at its end.
   * @param {number} count of launches
   */
  reset(count) {
    this.#slider.max = String(count);
    this.show(count);
  }

  /** @param {number} done */
  show(done) {
    this.pause();
    this.#set(done);
  }

  play() {
    this.#set(this.done === this.count ? 0 : this.done);
    this.#play.dataset.playing = 'true';
    this.#play.setAttribute('aria-label', 'Pause');
    this.#clock = setInterval(() => {
      this.#set(this.done + 1);
      if (this.done === this.count) {
        this.pause();
      }
    }, Math.min(BEAT, LONGEST / Math.max(this.count, 1)));
  }

  pause() {
    clearInterval(this.#clock);
    this.#clock = undefined;
    delete this.#play.dataset.playing;
    this.#play.setAttribute('aria-label', 'Play');
  }

  /** @param {number} done */
  #set(done) {
    this.#slider.value = String(Math.max(0, Math.min(this.count, done)));
    this.#slider.setAttribute('aria-valuetext', `${this.done} of ${this.count} launches`);
    this.#shown(this.done);
  }
}
