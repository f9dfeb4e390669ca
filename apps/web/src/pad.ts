// The pad: draws a Drawing on a canvas and changes it by finger, mouse, pen or keys.
//
// Keys, while the pad has the focus: arrows move the pen, two at once diagonally, with Shift in small steps; Space puts
// it down or lifts it; Backspace takes back a stroke, Escape clears. `say` gets texts for screen readers.

import { type Drawing, inside, type Point, type Stroke } from './drawing';

/** Width of the line on the screen, as a fraction of the pad. */
const PEN = 0.055;
const STEP = 0.05;
const SMALL_STEP = 0.01;

const ARROWS: Readonly<Record<string, Point>> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

export class Pad {
  readonly #canvas: HTMLCanvasElement;
  readonly #drawing: Drawing;
  readonly #say: (text: string) => void;
  readonly #held = new Set<string>();
  #pen: Point = { x: 0.5, y: 0.2 };
  #down = false;
  /** The pen of the keyboard is shown once a key has moved it. */
  #byKeys = false;
  #pointer: number | null = null;

  constructor(canvas: HTMLCanvasElement, drawing: Drawing, say: (text: string) => void) {
    this.#canvas = canvas;
    this.#drawing = drawing;
    this.#say = say;
    drawing.addEventListener('change', () => this.#paint());
    new ResizeObserver(() => this.#paint()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#paint());
    canvas.addEventListener('pointerdown', (event) => this.#press(event));
    canvas.addEventListener('pointermove', (event) => this.#move(event));
    canvas.addEventListener('pointerup', (event) => this.#release(event));
    canvas.addEventListener('pointercancel', (event) => this.#release(event));
    canvas.addEventListener('keydown', (event) => this.#key(event));
    canvas.addEventListener('keyup', (event) => this.#held.delete(event.key));
    canvas.addEventListener('blur', () => this.#leave());
  }

  #press(event: PointerEvent): void {
    if (event.button !== 0 || this.#pointer !== null) {
      return;
    }
    this.#pointer = event.pointerId;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#byKeys = this.#down = false;
    this.#drawing.begin(this.#at(event));
  }

  #move(event: PointerEvent): void {
    if (event.pointerId === this.#pointer) {
      const between = event.getCoalescedEvents();
      (between.length > 0 ? between : [event]).forEach((each) => this.#drawing.extend(this.#at(each)));
    }
  }

  #release(event: PointerEvent): void {
    if (event.pointerId === this.#pointer) {
      this.#pointer = null;
    }
  }

  /** The position of an event on the pad. */
  #at(event: PointerEvent): Point {
    const box = this.#canvas.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  }

  #key(event: KeyboardEvent): void {
    const { key } = event;
    if (key in ARROWS) {
      this.#held.add(key);
      this.#step(event.shiftKey ? SMALL_STEP : STEP);
    } else if (key === ' ') {
      if (!event.repeat) {
        this.#toggle();
      }
    } else if (key === 'Backspace' || (key === 'z' && (event.ctrlKey || event.metaKey))) {
      this.#down = false;
      this.#drawing.undo();
    } else if (key === 'Escape') {
      this.#down = false;
      this.#drawing.clear();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Move the pen by the arrows that are held. */
  #step(by: number): void {
    const arrows = [...this.#held].map((key) => ARROWS[key] as Point);
    const [dx, dy] = [sum(arrows.map(({ x }) => x)), sum(arrows.map(({ y }) => y))];
    this.#byKeys = true;
    this.#pen = inside({ x: this.#pen.x + dx * by, y: this.#pen.y + dy * by });
    if (this.#down) {
      this.#drawing.extend(this.#pen);
    }
    this.#paint();
  }

  #toggle(): void {
    this.#byKeys = true;
    this.#down = !this.#down;
    if (this.#down) {
      this.#drawing.begin(this.#pen);
    }
    this.#paint();
    const { x, y } = this.#pen;
    const where = `${Math.round(x * 100)} % from the left, ${Math.round(y * 100)} % from the top`;
    this.#say(`Pen ${this.#down ? 'down' : 'up'}, ${where}.`);
  }

  #leave(): void {
    this.#held.clear();
    this.#byKeys = this.#down = false;
    this.#paint();
  }

  #paint(): void {
    const side = Math.round(this.#canvas.clientWidth * devicePixelRatio);
    const context = this.#canvas.getContext('2d');
    if (!context || side === 0) {
      return;
    }
    this.#canvas.width = this.#canvas.height = side;
    const style = getComputedStyle(this.#canvas);
    context.scale(side, side);
    context.lineCap = context.lineJoin = 'round';
    context.lineWidth = PEN;
    context.strokeStyle = style.color;
    this.#drawing.strokes.forEach((stroke) => context.stroke(smooth(stroke)));
    if (this.#byKeys) {
      this.#paintPen(context, style.getPropertyValue('--accent'));
    }
  }

  /** Draw a ring at the pen, filled while the pen is down. */
  #paintPen(context: CanvasRenderingContext2D, colour: string): void {
    context.beginPath();
    context.arc(this.#pen.x, this.#pen.y, PEN * 0.7, 0, 2 * Math.PI);
    context.lineWidth = 0.012;
    context.strokeStyle = context.fillStyle = colour;
    context.stroke();
    if (this.#down) {
      context.fill();
    }
  }
}

/** A stroke as curves from the middle of each line to the middle of the next. */
function smooth(stroke: Stroke): Path2D {
  const path = new Path2D();
  const [first] = stroke;
  const last = stroke.at(-1);
  if (first && last) {
    path.moveTo(first.x, first.y);
    stroke.slice(1).forEach((point, index) => {
      const before = stroke[index] as Point;
      path.quadraticCurveTo(before.x, before.y, (before.x + point.x) / 2, (before.y + point.y) / 2);
    });
    path.lineTo(last.x, last.y);
  }
  return path;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
