// A conversation in a page: a list of questions and answers, which are written piece by piece. The page of `deploykit
// try` and those of apps share it.

/** @typedef {{ role: string, content: string }} Message */
/** @typedef {import('./messages.mjs').Piece} Piece */
/**
 * Seconds until the first token, and tokens per second after it, null until there are two.
 * @typedef {{ first: number, rate: number | null }} Speed
 */
/**
 * `ask` gives the pieces of an answer to these messages; `attempt` is how often it was asked for before. `onBusy` is
 * called when an answer begins and ends, `onSpeed` with each piece, and `onError` with what ended an answer too early,
 * unless it was stopped.
 * @typedef {object} Page
 * @property {(messages: Message[], signal: AbortSignal, attempt: number) => AsyncIterable<Piece>} ask
 * @property {(busy: boolean) => void} onBusy
 * @property {(speed: Speed) => void} onSpeed
 * @property {(error: unknown) => void} onError
 */

/** How long a button says that a text was copied, in milliseconds. */
const SAID = 1500;
/** The page follows an answer if its end is at most so many pixels below the window. */
const NEAR = 80;

/**
 * @param {string} tag
 * @param {...(Node | string)} children
 */
function make(tag, ...children) {
  const made = document.createElement(tag);
  made.append(...children);
  return made;
}

/**
 * A line with **bold**, *italic* and `code` as elements. Nothing of the model's text becomes markup.
 * @param {string} text
 */
function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)/).map((part) => {
    if (part.length > 2 && part.startsWith('`')) {
      return make('code', part.slice(1, -1));
    }
    if (part.length > 4 && part.startsWith('**')) {
      return make('strong', part.slice(2, -2));
    }
    if (part.length > 2 && part.startsWith('*') && part.endsWith('*')) {
      return make('em', part.slice(1, -1));
    }
    return part;
  });
}

/**
 * The Markdown that models write, as elements: paragraphs, headings, lists and code.
 * @param {string} text
 */
export function rendered(text) {
  /** @type {HTMLElement[]} */
  const found = [];
  text.split(/^```.*$/m).forEach((block, index) => {
    if (index % 2) {
      found.push(make('pre', make('code', block.replace(/^\n|\n$/g, ''))));
      return;
    }
    for (const part of block.split(/\n{2,}/)) {
      const lines = part.split('\n').filter((line) => line.trim());
      const items = lines.map((line) => /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/.exec(line));
      if (lines.length && items.every((item) => item !== null)) {
        const list = make(items[0][1] ? 'ol' : 'ul', ...items.map((item) => make('li', ...inline(item[2]))));
        if (items[0][1]) {
          // Models leave lines empty between the items.
          list.setAttribute('start', items[0][1]);
        }
        found.push(list);
      } else if (lines.length) {
        const shown = lines.map((line) => inline(line.replace(/^#+\s+/, '')));
        found.push(make('p', ...shown.flatMap((line, at) => [...(at ? [make('br')] : []), ...line])));
      }
    }
  });
  return found;
}

/** The messages that a tab keeps, so that a reload has them; where it cannot keep any, there are none. */
const kept = {
  key: () => `conversation of ${location.pathname}`,
  /** @returns {Message[]} */
  read() {
    try {
      return JSON.parse(sessionStorage.getItem(kept.key()) ?? '[]');
    } catch {
      return [];
    }
  },
  write(/** @type {readonly Message[]} */ messages) {
    try {
      sessionStorage.setItem(kept.key(), JSON.stringify(messages));
    } catch {
      // The page works without.
    }
  },
};

/** Messages, which outlive a reload of the page in its tab. */
export class Conversation {
  #list;
  #page;
  /** @type {AbortController | null} */
  #stopping = null;
  /** @type {Message[]} */
  messages = [];

  /**
   * @param {HTMLElement} list that gets an element for each message, with its role as the class
   * @param {Page} page
   */
  constructor(list, page) {
    this.#list = list;
    this.#page = page;
    for (const message of kept.read()) {
      this.messages.push(message);
      const item = this.#shown(message.role);
      if (message.role === 'user') {
        item.textContent = message.content;
      } else {
        item.append(...rendered(message.content), this.#tools(message.content, this.messages.length - 1, 0));
      }
    }
  }

  get busy() {
    return this.#stopping !== null;
  }

  /** End the answer that is being written. What there is of it stays. */
  stop() {
    this.#stopping?.abort();
  }

  /** Forget all messages. */
  clear() {
    this.messages = [];
    this.#list.replaceChildren();
    kept.write([]);
  }

  /**
   * Show a question, and its answer as it is written.
   * @param {string} text
   * @param {number} [attempt] how often the answer was asked for before
   */
  async say(text, attempt = 0) {
    const { ask, onBusy, onSpeed, onError } = this.#page;
    this.messages.push({ role: 'user', content: text });
    this.#shown('user').textContent = text;
    const item = this.#shown('assistant');
    const stopping = (this.#stopping = new AbortController());
    this.#list.setAttribute('aria-busy', 'true');
    onBusy(true);
    const began = performance.now();
    let [answer, tokens, first] = ['', 0, 0];
    item.scrollIntoView({ block: 'nearest' });
    try {
      for await (const piece of ask(this.messages, stopping.signal, attempt)) {
        const now = performance.now();
        const follows = item.getBoundingClientRect().bottom < innerHeight + NEAR;
        first ||= now;
        tokens += 1;
        answer += piece.text;
        item.replaceChildren(...rendered(answer));
        onSpeed({ first: (first - began) / 1000, rate: tokens > 1 ? (1000 * (tokens - 1)) / (now - first) : null });
        if (follows) {
          item.scrollIntoView({ block: 'end' });
        }
      }
    } catch (error) {
      if (!stopping.signal.aborted) {
        onError(error);
      }
    }
    this.messages.push({ role: 'assistant', content: answer });
    kept.write(this.messages);
    item.append(this.#tools(answer, this.messages.length - 1, attempt));
    this.#stopping = null;
    this.#list.setAttribute('aria-busy', 'false');
    onBusy(false);
  }

  /** @param {string} role */
  #shown(role) {
    const item = make('li');
    item.className = role;
    this.#list.append(item);
    return item;
  }

  /**
   * The buttons of an answer.
   * @param {string} answer
   * @param {number} index of its message
   * @param {number} attempt
   */
  #tools(answer, index, attempt) {
    const copy = button('Copy', async () => {
      await navigator.clipboard.writeText(answer);
      copy.textContent = 'Copied';
      setTimeout(() => (copy.textContent = 'Copy'), SAID);
    });
    const retry = button('Retry', () => {
      if (!this.busy) {
        const { content } = this.messages[index - 1];
        this.messages = this.messages.slice(0, index - 1);
        [...this.#list.children].slice(index - 1).forEach((child) => child.remove());
        this.say(content, attempt + 1);
      }
    });
    const line = make('div', copy, retry);
    line.className = 'tools';
    return line;
  }
}

/**
 * @param {string} name
 * @param {() => void} act
 */
function button(name, act) {
  const made = make('button', name);
  made.setAttribute('type', 'button');
  made.addEventListener('click', act);
  return made;
}
