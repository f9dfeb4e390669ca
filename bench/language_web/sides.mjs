// How a page loads a language model with each library. A side gives a function that continues a text by the most
// probable tokens, as many as asked for, and says how many tokens of the text it has read.

const at = (path) => new URL(path, import.meta.url).href;

async function deploykit({ folder, device, threads }) {
  const { load } = await import(at(`${folder}/index.mjs`));
  const model = await load({ device, threads, worker: true });
  return async (prompt, maxTokens) => {
    const { text, timings } = await model.complete(prompt, { maxTokens, ignoreEnd: true });
    return { text, read: timings.promptTokens, written: timings.tokens };
  };
}

async function wllama({ file, context, threads }) {
  const { Wllama } = await import(at('node_modules/@wllama/wllama/esm/index.min.js'));
  const model = new Wllama(
    { default: at('node_modules/@wllama/wllama/esm/wasm/wllama.wasm') },
    { suppressNativeLog: true },
  );
  await model.loadModelFromUrl(at(file), { n_threads: threads, n_gpu_layers: 0, n_ctx: context });
  return async (prompt, maxTokens) => {
    const options = { prompt, max_tokens: maxTokens, temperature: 0, ignore_eos: true, cache_prompt: false };
    const { choices, usage } = await model.createCompletion(options);
    return { text: choices[0].text, read: usage.prompt_tokens, written: usage.completion_tokens };
  };
}

async function transformers({ folder, dtype, external, device, threads }) {
  const { env, AutoModelForCausalLM, AutoTokenizer } = await import(
    at('node_modules/@huggingface/transformers/dist/transformers.min.js')
  );
  Object.assign(env, { localModelPath: '/', allowLocalModels: true, allowRemoteModels: false });
  env.backends.onnx.wasm.wasmPaths = at('node_modules/onnxruntime-web/dist/');
  env.backends.onnx.wasm.numThreads = threads;
  const tokenizer = await AutoTokenizer.from_pretrained(folder);
  const options = { dtype, device, use_external_data_format: external };
  const model = await AutoModelForCausalLM.from_pretrained(folder, options);
  return async (prompt, count) => {
    const inputs = tokenizer(prompt);
    const [, read] = inputs.input_ids.dims;
    const lengths = { max_new_tokens: count, min_new_tokens: count };
    const tokens = await model.generate({ ...inputs, ...lengths, do_sample: false });
    const [, all] = tokens.dims;
    const [text] = tokenizer.batch_decode(tokens.slice(null, [read, all]), { skip_special_tokens: true });
    return { text, read, written: all - read };
  };
}

const SIDES = { deploykit, wllama, transformers };

/** Load a side; `globalThis.complete` is its function then. Gives the seconds. */
export async function open(side, settings) {
  const start = performance.now();
  globalThis.complete = await SIDES[side](settings);
  return (performance.now() - start) / 1000;
}
