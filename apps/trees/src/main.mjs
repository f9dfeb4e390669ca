// The page: expressions in, trees, answers and the schedule of their batches out.

import { Engine, POLICIES } from './engine.mjs';
import { examples, FIRST } from './examples.mjs';
import { Links } from './links.mjs';
import { parse, SyntaxFault } from './parser.mjs';
import { Replay } from './replay.mjs';
import { drawSchedule } from './schedule.mjs';
import { colourOf, html, kindOf, markedText } from './svg.mjs';
import { drawCard } from './trees.mjs';

/** @typedef {import('./parser.mjs').Tree} Tree */
/** @typedef {import('./engine.mjs').Run} Run */
/** @typedef {import('../arithmetic/index.mjs').Policy} Policy */

/** Milliseconds without a key before the model runs. */
const REST = 120;
const MOST_NODES = 500;
/** @type {Record<Policy, string>} */
const REASONS = {
  critical: 'Next comes the operator whose longest chain only it can shorten now.',
  depth: 'Next comes what is least deep in the data flow, one operator after the other.',
  agenda: 'Next comes the operator whose waiting nodes are the least deep on average.',
  fsm: 'Next comes what a table says, which was learned from samples when the model was built.',
  alone: 'Each node runs by itself, without batches.',
};

/** @type {<E extends HTMLElement>(id: string) => E} */
const element = (id) => /** @type {any} */ (document.getElementById(id));
/** @type {HTMLTextAreaElement} */
const editor = element('expressions');
const picture = element('schedule');

/** @type {{ text: string, tree: Tree }[]} */
let expressions = [];
/** @type {Map<Policy, Run>} */
let runs = new Map();
/** @type {Policy} */
let policy = POLICIES[0];
/** The width of the picture when it was drawn. */
let drawn = 0;

const links = new Links(element('pictures'), {
  shown: (text) => {
    element('detail').textContent = text;
  },
  chosen: (launch) => replay.show(launch + 1),
});
const replay = new Replay(element('replay'), (done) => {
  links.progress(done);
  element('done').textContent = `${done} / ${replay.count}`;
  follow(picture.querySelector("[data-state='last']"));
});

/**
 * Scroll the schedule, not the page, to the launch that ran last.
 * @param {Element | null} square
 */
function follow(square) {
  if (square) {
    const [own, around] = [square.getBoundingClientRect(), picture.getBoundingClientRect()];
    picture.scrollLeft += Math.max(0, own.right + own.width - around.right) + Math.min(0, own.left - own.width - around.left);
  }
}

/** The expressions of the editor; a line that is none is shown with its fault. */
function read() {
  /** @type {HTMLElement[]} */
  const faults = [];
  expressions = [];
  editor.value.split('\n').forEach((line, number) => {
    const text = line.trim();
    if (!text) {
      return;
    }
    try {
      expressions.push({ text, tree: parse(text) });
    } catch (error) {
      if (!(error instanceof SyntaxFault)) {
        throw error;
      }
      faults.push(faultOf(text, number, error));
    }
  });
  element('faults').replaceChildren(...faults);
  editor.setAttribute('aria-invalid', String(faults.length > 0));
}

/**
 * @param {string} text
 * @param {number} number
 * @param {SyntaxFault} fault
 */
function faultOf(text, number, { message, start, end }) {
  const marked = html('code', {}, ...markedText(text, { start, end }));
  return html('li', {}, `Line ${number + 1}: ${message}.`, marked);
}

/** Run the model for what is in the editor, and show everything. */
async function update() {
  const engine = await opened;
  read();
  const trees = expressions.map(({ tree }) => tree);
  const found = await engine.runAll(trees);
  if (trees.length !== expressions.length || trees.some((tree, index) => tree !== expressions[index].tree)) {
    return; // there are others by now
  }
  const nodes = [...(found.get('alone')?.launches ?? [])].length;
  element('problem').hidden = nodes <= MOST_NODES;
  element('problem').textContent = `These expressions have ${nodes} nodes, and the pictures have room for ${MOST_NODES}.`;
  runs = nodes <= MOST_NODES ? found : new Map();
  show();
}

/** Show the schedule of the chosen policy. */
function show() {
  const run = runs.get(policy);
  element('pictures').hidden = !run || expressions.length === 0;
  element('empty').hidden = expressions.length > 0;
  if (!run || expressions.length === 0) {
    return;
  }
  showCounts();
  const uses = run.launches.flat();
  element('trees').replaceChildren(
    ...expressions.map((each, number) =>
      drawCard(each, number, run.answers[number], uses.filter((use) => use.expression === number)),
    ),
  );
  showLegend(run);
  drawPicture();
  links.reset(run.launches);
  replay.reset(run.launches.length);
}

function drawPicture() {
  const run = runs.get(policy);
  if (run) {
    drawn = picture.clientWidth;
    picture.replaceChildren(drawSchedule(run, drawn));
  }
}

/** How many launches each policy needs. */
function showCounts() {
  const alone = runs.get('alone')?.launches.length ?? 0;
  for (const [name, { launches }] of runs) {
    const label = element(`policy-${name}`);
    const count = label.querySelector('.count');
    if (count) {
      count.textContent = String(launches.length);
    }
    label.style.setProperty('--part', String(launches.length / Math.max(alone, 1)));
  }
  const own = runs.get(policy)?.launches.length ?? 0;
  element('launches').textContent = String(own);
  element('nodes').textContent = String(alone);
  element('reason').textContent = REASONS[policy];
  element('saved').textContent = `${Math.round((1 - own / Math.max(alone, 1)) * 100)} %`;
}

/** @param {Run} run */
function showLegend({ launches }) {
  /** @type {Map<number, { name: string, nodes: number, launches: number }>} */
  const cells = new Map();
  for (const uses of launches) {
    const found = cells.get(uses[0].cell) ?? { name: kindOf(uses[0]).name, nodes: 0, launches: 0 };
    cells.set(uses[0].cell, { ...found, nodes: found.nodes + uses.length, launches: found.launches + 1 });
  }
  const items = [...cells].sort(([a], [b]) => a - b).map(([cell, found]) =>
    html(
      'li',
      { class: colourOf(cell) },
      html('span', { class: 'swatch' }),
      `${found.name} `,
      html('span', { class: 'quiet' }, `${found.nodes} in ${found.launches}`),
    ),
  );
  element('legend').replaceChildren(...items);
}

function makePolicies() {
  const labels = POLICIES.map((name) => {
    const input = html('input', { type: 'radio', name: 'policy', value: name });
    input.checked = name === policy;
    input.addEventListener('change', () => {
      policy = name;
      show();
    });
    const count = html('span', { class: 'count' }, '–');
    return html('label', { id: `policy-${name}` }, input, html('span', { class: 'choice' }, name, count));
  });
  element('policies').append(...labels);
}

/** @param {string[]} lines */
function write(lines) {
  editor.value = lines.join('\n');
  update().catch(fail);
}

/** @param {unknown} error */
function fail(error) {
  element('problem').hidden = false;
  const reason = error instanceof Error ? error.message : error;
  element('problem').textContent = `The model cannot run. README.md says how to build it. Reason: ${reason}`;
  element('loading').hidden = true;
}

makePolicies();
const opened = Engine.open();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let rest;
editor.addEventListener('input', () => {
  clearTimeout(rest);
  rest = setTimeout(() => update().catch(fail), REST);
});
element('example').addEventListener('click', () => write(examples()));
new ResizeObserver(() => {
  if (picture.clientWidth !== drawn) {
    drawPicture();
    links.progress(replay.done);
  }
}).observe(picture);
opened.then(() => {
  element('loading').hidden = true;
}, fail);
write(FIRST);
navigator.serviceWorker?.register('./offline.mjs', { type: 'module' }).catch(() => {});
