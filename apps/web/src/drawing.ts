// A drawing: strokes on a pad of 1 by 1, x to the right, y downwards. Every change dispatches the event `change`.

export interface Point {
  readonly x: number;
  readonly y: number;
}

export type Stroke = readonly Point[];

/** Points closer to the last one than this are left out. */
const NEAR = 0.004;

export class Drawing extends EventTarget {
  #strokes: Point[][] = [];

  get strokes(): readonly Stroke[] {
    return this.#strokes;
  }

  get empty(): boolean {
    return this.#strokes.length === 0;
  }

  /** Put the pen down. */
  begin(point: Point): void {
    this.#strokes.push([inside(point)]);
    this.#changed();
  }

  /** Move the pen while it is down. */
  extend(to: Point): void {
    const stroke = this.#strokes.at(-1);
    const last = stroke?.at(-1);
    const point = inside(to);
    if (stroke && last && Math.hypot(point.x - last.x, point.y - last.y) >= NEAR) {
      stroke.push(point);
      this.#changed();
    }
  }

  /** Take back the last stroke. */
  undo(): void {
    this.#strokes.pop();
    this.#changed();
  }

  clear(): void {
    this.#strokes = [];
    this.#changed();
  }

  #changed(): void {
    this.dispatchEvent(new Event('change'));
  }
}

/** The nearest point on the pad. */
export function inside({ x, y }: Point): Point {
  return { x: Math.min(1, Math.max(0, x)), y: Math.min(1, Math.max(0, y)) };
}
