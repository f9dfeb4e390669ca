// Where texts come from: the editor, the clipboard, a file that is chosen or dropped.

import { element, megabytes } from '../shared/page';

/** The largest file, in bytes. */
const LARGEST = 10e6;

export class Editor {
  readonly #form = element('editor', HTMLFormElement);
  readonly #draft = element('draft', HTMLTextAreaElement);
  readonly #shown = element('text', HTMLElement);
  readonly #buttons = [element('edit', HTMLButtonElement), element('replace', HTMLButtonElement)];
  readonly #onText: (text: string) => void;
  readonly #onProblem: (problem: string) => void;
  #current = '';

  constructor(onText: (text: string) => void, onProblem: (problem: string) => void) {
    this.#onText = onText;
    this.#onProblem = onProblem;
    const [edit, replace] = this.#buttons;
    edit?.addEventListener('click', () => this.#open(this.#current));
    replace?.addEventListener('click', () => this.#open(''));
    element('cancel', HTMLButtonElement).addEventListener('click', () => this.#close());
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.take(this.#draft.value);
    });
    this.#form.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        this.#form.requestSubmit();
      } else if (event.key === 'Escape') {
        this.#close();
      }
    });
    this.#hearFiles();
    document.addEventListener('paste', (event) => this.#paste(event));
  }

  /** Use a text from now on. An empty one opens the editor. */
  take(text: string): void {
    const clean = text.replace(/\r\n?/g, '\n');
    if (!clean.trim()) {
      this.#open('');
      return;
    }
    this.#current = clean;
    this.#close();
    this.#onText(clean);
  }

  #open(text: string): void {
    this.#draft.value = text;
    this.#toggle(true);
    this.#draft.focus();
    this.#draft.setSelectionRange(0, 0);
    this.#draft.scrollTop = 0;
  }

  #close(): void {
    const hadFocus = this.#form.contains(document.activeElement);
    this.#toggle(false);
    if (hadFocus) {
      this.#buttons[0]?.focus();
    }
  }

  #toggle(editing: boolean): void {
    this.#form.hidden = !editing;
    this.#shown.hidden = editing;
    this.#buttons.forEach((button) => (button.hidden = editing));
  }

  #hearFiles(): void {
    const file = element('file', HTMLInputElement);
    element('open', HTMLButtonElement).addEventListener('click', () => file.click());
    file.addEventListener('change', () => {
      void this.#read(file.files?.[0]);
      file.value = '';
    });
    const root = document.documentElement;
    root.addEventListener('dragover', (event) => {
      event.preventDefault();
      root.classList.add('dropping');
    });
    root.addEventListener('dragleave', (event) => {
      root.classList.toggle('dropping', event.relatedTarget !== null);
    });
    root.addEventListener('drop', (event) => {
      event.preventDefault();
      root.classList.remove('dropping');
      const dropped = event.dataTransfer?.files[0];
      void (dropped ? this.#read(dropped) : this.take(event.dataTransfer?.getData('text') ?? this.#current));
    });
  }

  async #read(file: File | undefined): Promise<void> {
    if (!file) {
      return;
    }
    if (file.size > LARGEST) {
      this.#onProblem(`${file.name} has ${megabytes(file.size)}; this page takes at most ${megabytes(LARGEST)}.`);
      return;
    }
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
      if (text.includes('\0')) {
        throw new TypeError('it has zero bytes');
      }
      this.take(text);
    } catch {
      this.#onProblem(`${file.name} is not a text in UTF-8. Copy its text and paste it here.`);
    }
  }

  /** Text that is pasted anywhere but in a field replaces the text. */
  #paste(event: ClipboardEvent): void {
    const field = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    const text = event.clipboardData?.getData('text') ?? '';
    if (!field && text.trim()) {
      this.take(text);
    }
  }
}
