// Ragged inputs and outputs: the instances of a batch, one after the other without padding, and their lengths. `ragged`
// makes models take and return them; for the rest of the runtime, values and lengths are plain tensors.

import { dtypeOf } from './dtypes.mjs';
import { ShapeError, UsageError } from './errors.mjs';
import { elementsOf, tensorsOf } from './inputs.mjs';
import { DeviceTensor } from './kept.mjs';
import { fetchManifest } from './opening.mjs';

/** @typedef {import('./model.mjs').Model} Model */
/** @typedef {import('./model.mjs').LoadOptions} LoadOptions */
/** @typedef {import('./model.mjs').Locate} Locate */
/** @typedef {import('./functions.mjs').FunctionsModel} FunctionsModel */
/** @typedef {import('./module.mjs').Tensor} Tensor */
/** @typedef {import('./module.mjs').Port} Port */
/** @typedef {import('./dtypes.mjs').Elements} Elements */
/** @typedef {import('./inputs.mjs').Input} Input */
/** @typedef {ArrayLike<number | bigint>} Numbers */
/** @typedef {{ values: Elements, lengths?: Numbers, shapes?: readonly Numbers[] }} Packed */
/** @typedef {Input | Packed | readonly Input[] | Numbers} Given */
/** @typedef {{ from: string, numbers: readonly number[] }} Lengths lengths, and the input that they are from */
/** @typedef {Map<number | string, number | number[]>} Sizes */
/** @typedef {Port & { instance: readonly (number | string)[] }} RaggedPort */

/**
 * A function that loads a model with ragged inputs or outputs, from one that loads any model.
 * @template {Model | FunctionsModel} Loaded
 * @param {(locate: Locate, options?: LoadOptions) => Promise<Loaded>} load
 * @returns {(locate: Locate, options?: LoadOptions) => Promise<Loaded>}
 */
export function ragged(load) {
  return async (locate, options) => {
    const plain = { ...options };
    if (plain.sample) {
      const { inputs } = await fetchManifest(locate, plain);
      plain.sample = plainOf(inputs, plain.sample).plain;
    }
    const loaded = await load(locate, plain);
    const models = 'functions' in loaded ? Object.values(loaded.functions) : [loaded];
    /** @type {Model[]} */ (models).forEach(adapt);
    return loaded;
  };
}

/**
 * Let a model take and return ragged values.
 * @param {Model} model
 */
function adapt(model) {
  const { inputs, outputs } = model;
  const [run, profile] = [model.run.bind(model), model.profile.bind(model)];
  Object.assign(model, {
    run: async (/** @type {Record<string, Given>} */ given, /** @type {Parameters<typeof run>[1]} */ options) => {
      if (options?.keep || Object.values(given ?? {}).some(isOnDevice)) {
        throw new UsageError('values stay on the device only where each is one tensor: this model is ragged');
      }
      const { plain, tensors } = plainOf(inputs, given);
      const sizes = sizesOf(inputs, tensors, lengthsOf(inputs, [...inputs, ...outputs]));
      return packed(outputs, /** @type {Record<string, Tensor>} */ (await run(plain, options)), sizes);
    },
    profile: async (/** @type {Record<string, Given>} */ given, /** @type {Parameters<typeof profile>[1]} */ options) =>
      profile(plainOf(inputs, given).plain, options),
  });
}

/** @param {any} input */
function isOnDevice(input) {
  return input instanceof DeviceTensor || Boolean(input?.gpuBuffer);
}

/**
 * The inputs as plain tensors, by name and in order.
 * @param {readonly Port[]} ports
 * @param {Record<string, Given>} given
 */
function plainOf(ports, given) {
  const tensors = tensorsOf(ports, unpacked(ports, given ?? {}));
  return { plain: Object.fromEntries(ports.map(({ name }, index) => [name, tensors[index]])), tensors };
}

/**
 * A ragged output. `values` holds the elements of all instances, and `shape` is its shape. Instance i has the shape
 * `shapes[i]`, of which `lengths[i]` is the first extent, and begins at `offsets[i]` of the first axis of the values.
 */
export class Ragged {
  /**
   * @param {Tensor} tensor
   * @param {number[][]} shapes
   */
  constructor({ dtype, shape, data }, shapes) {
    this.dtype = dtype;
    this.values = data;
    this.shape = shape;
    this.shapes = shapes;
    this.lengths = shapes.map(([first]) => first);
    this.offsets = [0];
    const sizes = shape.length > 1 ? this.lengths : shapes.map(product);
    sizes.forEach((size, index) => this.offsets.push(this.offsets[index] + size));
  }

  /** The number of instances. */
  get length() {
    return this.shapes.length;
  }

  /**
   * Instance `index` as a tensor; its data is a view of the values.
   * @param {number} index
   * @returns {Tensor}
   * @throws {ShapeError}
   */
  instance(index) {
    const shape = this.shapes[index];
    if (!shape) {
      throw new ShapeError(`there is no instance ${index}: there are ${this.length}`);
    }
    const [begin, end] = [index, index + 1].map((at) => this.offsets[at] * product(this.shape.slice(1)));
    return { dtype: this.dtype, shape, data: this.values.subarray(begin, end) };
  }

  *[Symbol.iterator]() {
    for (let index = 0; index < this.length; index += 1) {
      yield this.instance(index);
    }
  }
}

/**
 * The inputs as plain tensors: raw values in place of ragged ones, and all lengths. Unknown and missing inputs stay.
 * @param {readonly Port[]} ports
 * @param {Record<string, Given>} inputs by name
 * @returns {Record<string, Input>}
 * @throws {ShapeError}
 */
function unpacked(ports, inputs) {
  const found = { ...inputs };
  const ragged = raggedOf(ports).filter(({ name }) => isGiven(found[name]));
  const names = lengthsOf(ports, ports);
  /** @type {Map<string, Lengths>} */
  const known = new Map();
  for (const port of ports.filter(({ name }) => names.includes(name) && isGiven(found[name]))) {
    const numbers = numbersOf(port.name, found[port.name]);
    known.set(port.name, { from: port.name, numbers });
    found[port.name] = isRaw(found[port.name]) ? found[port.name] : elementsOf(port, numbers, 'input');
  }
  for (const port of ragged.filter(({ name }) => !isRaw(found[name]))) {
    const { data, shapes } = packedOf(port, names, /** @type {Packed | readonly Input[]} */ (found[port.name]));
    const rows = shapes.reduce((total, [first]) => total + first, 0);
    const shape = isFlat(port, names) ? [data.length] : [rows, ...port.instance.slice(1).map(Number)];
    found[port.name] = { data, shape };
    port.instance.forEach((extent, axis) => {
      if (names.includes(extent)) {
        agree(known, `${extent}`, { from: port.name, numbers: shapes.map((own) => own[axis]) });
      }
    });
  }
  for (const port of ports.filter(({ name }) => known.has(name) && !isGiven(found[name]))) {
    found[port.name] = elementsOf(port, known.get(port.name)?.numbers ?? [], 'input');
  }
  ragged.forEach((port) => checkSum(port, names, known, /** @type {Input} */ (found[port.name])));
  return /** @type {Record<string, Input>} */ (found);
}

/**
 * The outputs of a run, ragged ones as `Ragged`.
 * @param {readonly Port[]} outputs
 * @param {Record<string, Tensor>} results by name
 * @param {Sizes} sizes of the run's inputs
 */
function packed(outputs, results, sizes) {
  const found = outputs.map(({ name, instance }) => {
    const result = results[name];
    if (!instance) {
      return [name, result];
    }
    const columns = instance.map((extent) => valueOf(extent, sizes));
    const batch = columns.find((column) => typeof column === 'object')?.length ?? 0;
    const row = (/** @type {number} */ at) => columns.map((own) => (typeof own === 'object' ? own[at] : own));
    return [name, new Ragged(result, Array.from({ length: batch }, (_, at) => row(at)))];
  });
  return Object.fromEntries(found);
}

/**
 * The value of an extent of instances: the lengths that it names, or a sum of multiples of dims such as `2*n + 1`.
 * @param {number | string} extent
 * @param {Sizes} sizes
 */
function valueOf(extent, sizes) {
  const known = sizes.get(extent);
  if (known !== undefined) {
    return known;
  }
  return Array.from(`${extent}`.matchAll(/([-+]?) *(?:([0-9]+)\*)?("[^"]*"|[^ *+-]+)/g)).reduce(
    (total, [, sign, factor, name]) =>
      total + Number(`${sign}${factor ?? 1}`) * Number(sizes.get(name.replaceAll('"', '')) ?? name),
    0,
  );
}

/**
 * The sizes of dims by name, and the lengths by the names of their inputs.
 * @param {readonly Port[]} inputs
 * @param {readonly Tensor[]} tensors
 * @param {readonly (number | string)[]} names of lengths
 * @returns {Sizes}
 */
function sizesOf(inputs, tensors, names) {
  /** @type {Sizes} */
  const sizes = new Map();
  inputs.forEach(({ name, shape }, index) => {
    shape.forEach((extent, axis) => sizes.set(extent, tensors[index].shape[axis]));
    if (names.includes(name)) {
      sizes.set(name, Array.from(tensors[index].data, Number));
    }
  });
  return sizes;
}

/**
 * @param {readonly Port[]} ports
 * @returns {RaggedPort[]}
 */
function raggedOf(ports) {
  return /** @type {RaggedPort[]} */ (ports.filter(({ instance }) => instance));
}

/**
 * The names of the inputs that have extents of instances.
 * @param {readonly Port[]} inputs
 * @param {readonly Port[]} ports
 * @returns {readonly (number | string)[]}
 */
function lengthsOf(inputs, ports) {
  const used = raggedOf(ports).flatMap(({ instance }) => instance);
  return inputs.map(({ name }) => name).filter((name) => used.includes(name));
}

/**
 * Whether the values are flat: an extent other than the first differs between instances.
 * @param {RaggedPort} port
 * @param {readonly (number | string)[]} names of lengths
 */
function isFlat({ instance: [first, ...others] }, names) {
  return !names.includes(first) || others.some((extent) => names.includes(extent));
}

/** @param {unknown} value */
function isGiven(value) {
  return value !== undefined && value !== null;
}

/** @param {Given} value */
function isRaw(value) {
  return ArrayBuffer.isView(value) || 'data' in Object(value);
}

/** @param {readonly number[]} shape */
function product(shape) {
  return shape.reduce((size, extent) => size * extent, 1);
}

/**
 * Lengths as numbers.
 * @param {string} name
 * @param {unknown} given
 */
function numbersOf(name, given) {
  const { data = given } = /** @type {{ data?: unknown }} */ (given);
  const numbers = Array.from(/** @type {Numbers} */ (Object(data)), Number);
  const wrong = numbers.find((length) => !Number.isInteger(length) || length < 0);
  if (wrong !== undefined) {
    throw new ShapeError(`input '${name}': a length must be a whole number of at least 0, found ${wrong}`);
  }
  return numbers;
}

/**
 * The elements of an input that is given as a list of instances, or as values with lengths or shapes.
 * @param {RaggedPort} port
 * @param {readonly (number | string)[]} names of lengths
 * @param {Packed | readonly Input[]} given
 * @returns {{ data: Elements, shapes: number[][] }}
 */
function packedOf(port, names, given) {
  if (Array.isArray(given)) {
    return joined(port, given.map((each, index) => instanceOf(port, names, each, index)));
  }
  const { values, lengths, shapes } = /** @type {Packed} */ (given);
  const flat = isFlat(port, names);
  const own = flat ? shapes : lengths;
  if (!values || !own) {
    const members = flat ? '{ values, shapes }' : '{ values, lengths }';
    throw new ShapeError(`input '${port.name}' is ragged: pass a list of its instances, or ${members}`);
  }
  const rows = flat
    ? (shapes ?? []).map((shape) => numbersOf(port.name, shape))
    : numbersOf(port.name, lengths).map((length) => [length, ...port.instance.slice(1).map(Number)]);
  rows.forEach((shape, index) => checkShape(port, shape, index));
  const total = rows.reduce((size, shape) => size + product(shape), 0);
  if (total !== values.length) {
    const what = `${values.length} elements, but its ${flat ? 'shapes' : 'lengths'} add up to ${total}`;
    throw new ShapeError(`input '${port.name}' has ${what}`);
  }
  return { data: values, shapes: rows };
}

/**
 * One instance: its shape follows from the number of elements if only one extent is open.
 * @param {RaggedPort} port
 * @param {readonly (number | string)[]} names of lengths
 * @param {Input} given
 * @param {number} index
 */
function instanceOf(port, names, given, index) {
  const { data = given, shape } = /** @type {{ data?: unknown, shape?: readonly number[] }} */ (Object(given));
  const elements = elementsOf(port, data, `instance ${index} of input`);
  if (!shape) {
    const known = product(port.instance.map((extent) => (typeof extent === 'number' ? extent : 1)));
    const open = port.instance.filter((extent) => typeof extent !== 'number').length;
    if (open !== 1 || elements.length % known !== 0) {
      const what = `instance ${index} of input '${port.name}' is ${textOf(port)}, which ${elements.length} elements`;
      throw new ShapeError(`${what} do not tell: pass { data, shape }`);
    }
    const length = elements.length / known;
    return { data: elements, shape: port.instance.map((extent) => (typeof extent === 'number' ? extent : length)) };
  }
  checkShape(port, shape, index);
  if (product(shape) !== elements.length) {
    const what = `has shape [${shape}] and ${elements.length} elements`;
    throw new ShapeError(`instance ${index} of input '${port.name}' ${what}`);
  }
  return { data: elements, shape: Array.from(shape) };
}

/**
 * @param {RaggedPort} port
 * @param {readonly number[]} shape
 * @param {number} index
 */
function checkShape(port, shape, index) {
  const { instance } = port;
  const fits = shape.length === instance.length && shape.every((extent) => Number.isInteger(extent) && extent >= 0);
  if (!fits || instance.some((extent, axis) => typeof extent === 'number' && extent !== shape[axis])) {
    const what = `has shape [${shape.join(', ')}], expected ${textOf(port)}`;
    throw new ShapeError(`instance ${index} of input '${port.name}' ${what}`);
  }
}

/**
 * @param {RaggedPort} port
 * @param {readonly { data: Elements, shape: number[] }[]} instances
 */
function joined({ dtype }, instances) {
  const data = new (dtypeOf(dtype).array)(instances.reduce((size, each) => size + each.data.length, 0));
  let at = 0;
  for (const each of instances) {
    /** @type {{ set(from: Elements, at: number): void }} */ (data).set(each.data, at);
    at += each.data.length;
  }
  return { data, shapes: instances.map(({ shape }) => shape) };
}

/**
 * Note lengths, or check that they are those that are known.
 * @param {Map<string, Lengths>} known
 * @param {string} name
 * @param {Lengths} lengths
 */
function agree(known, name, lengths) {
  const before = known.get(name) ?? lengths;
  known.set(name, before);
  const both = `inputs '${before.from}' and '${lengths.from}'`;
  if (before.numbers.length !== lengths.numbers.length) {
    const counts = `${before.numbers.length} and ${lengths.numbers.length} instances`;
    throw new ShapeError(`${both} have ${counts}`);
  }
  const at = before.numbers.findIndex((length, index) => length !== lengths.numbers[index]);
  if (at >= 0) {
    const found = `${before.numbers[at]} and ${lengths.numbers[at]}`;
    throw new ShapeError(`${both} disagree on '${name}' of instance ${at}: ${found}`);
  }
}

/**
 * Check that there are lengths for the values of an input, and that they add up to their number.
 * @param {RaggedPort} port
 * @param {readonly (number | string)[]} names of lengths
 * @param {ReadonlyMap<string, Lengths>} known
 * @param {Input} given
 */
function checkSum(port, names, known, given) {
  const own = port.instance.filter((extent) => names.includes(extent)).map(String);
  const missing = own.find((name) => !known.has(name));
  if (missing !== undefined) {
    const how = `pass it, or '${port.name}' as a list of its instances`;
    throw new ShapeError(`input '${missing}' is missing: ${how}`);
  }
  const columns = port.instance.map((extent) => known.get(`${extent}`)?.numbers ?? Number(extent));
  const [first] = own.map((name) => known.get(name)?.numbers ?? []);
  const size = first.reduce((total, _, at) => {
    return total + product(columns.map((column) => (typeof column === 'number' ? column : column[at])));
  }, 0);
  const elements = ArrayBuffer.isView(given) ? /** @type {Elements} */ (given) : /** @type {any} */ (given).data;
  // Extents that only a run knows are not numbers: the module checks these. Data that is missing is refused later.
  if (Number.isFinite(size) && elements && size !== elements.length) {
    const what = `${elements.length} elements, but with '${own.join("', '")}' it has ${size}`;
    throw new ShapeError(`input '${port.name}' has ${what}`);
  }
}

/** @param {RaggedPort} port */
function textOf({ instance }) {
  return `[${instance.join(', ')}]`;
}
