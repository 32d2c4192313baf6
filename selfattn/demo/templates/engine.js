"use strict";
/* The models of selfattn in plain JavaScript, for one text at a time and without training.

   A vector is a Float64Array, a sequence [i d] an array of vectors, heads [h i e] an array of sequences. Classes and
   weights have the names that they have in the package; attend() is its attend(). */

/* ---------------------------------------------------------------- weights */

/* A safetensors file: the length of its header, the header, the numbers. */
class Weights {
  constructor(base64) {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const start = 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true));
    this.tensors = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
    this.shared = this.tensors.__metadata__ || {};  // names that stand for a tensor stored under another name
    this.buffer = bytes.buffer;
    this.start = start;
  }

  has(name) { return name in this.tensors || name in this.shared; }

  /* A tensor as { shape, data }, read when it is first asked for. */
  get(name) {
    const tensor = this.tensors[this.shared[name] || name];
    if (!tensor) throw new Error(`${name}: not among the weights`);
    if (!tensor.data) {
      const [from, to] = tensor.data_offsets;
      const numbers = this.buffer.slice(this.start + from, this.start + to);
      if (tensor.dtype === "F32") tensor.data = new Float32Array(numbers);
      else if (tensor.dtype === "F16") tensor.data = Float32Array.from(new Uint16Array(numbers), halfToNumber);
      else throw new Error(`${name}: numbers of type ${tensor.dtype}`);
    }
    return tensor;
  }

  row(name, number) {
    const { shape: [, width], data } = this.get(name);
    return Float64Array.from(data.subarray(number * width, (number + 1) * width));
  }

  linear(name) {
    const { shape: [rows, columns], data } = this.get(`${name}.weight`);
    const bias = this.has(`${name}.bias`) ? this.get(`${name}.bias`).data : null;
    return (x) => product(data, rows, columns, x, bias);
  }
}

function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = (bits & 1023) / 1024;
  if (exponent === 0) return sign * 2 ** -14 * fraction;
  return exponent === 31 ? sign * (fraction ? NaN : Infinity) : sign * 2 ** (exponent - 15) * (1 + fraction);
}

/* ---------------------------------------------------------------- vectors */

/* matrix [rows columns] times x, plus bias; four rows at once, so that no sum waits for the one before. */
function product(matrix, rows, columns, x, bias = null) {
  if (x.length !== columns) throw new Error(`a matrix of ${columns} columns met a vector of ${x.length}`);
  const y = new Float64Array(rows);
  let row = 0;
  for (; row + 3 < rows; row += 4) {
    const a = row * columns, b = a + columns, c = b + columns, d = c + columns;
    let p = 0, q = 0, r = 0, s = 0;
    for (let k = 0; k < columns; k++) {
      const value = x[k];
      p += matrix[a + k] * value;
      q += matrix[b + k] * value;
      r += matrix[c + k] * value;
      s += matrix[d + k] * value;
    }
    y[row] = p; y[row + 1] = q; y[row + 2] = r; y[row + 3] = s;
  }
  for (; row < rows; row++) {
    let sum = 0;
    for (let k = 0; k < columns; k++) sum += matrix[row * columns + k] * x[k];
    y[row] = sum;
  }
  if (bias) for (let k = 0; k < rows; k++) y[k] += bias[k];
  return y;
}

function dot(a, b) {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += a[k] * b[k];
  return sum;
}

function add(a, b) { return a.map((value, k) => value + b[k]); }

function scale(a, factor) { return a.map((value) => value * factor); }

function joined(...vectors) {
  const whole = new Float64Array(vectors.reduce((length, vector) => length + vector.length, 0));
  let place = 0;
  for (const vector of vectors) {
    whole.set(vector, place);
    place += vector.length;
  }
  return whole;
}

function zeros(width) { return new Float64Array(width); }

function range(length, from = 0) { return Array.from({ length }, (_, k) => from + k); }

function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/* Abramowitz and Stegun 1964, formula 7.1.26: off by 1.5e-7 at most. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  silu: (x) => x * sigmoid(x),
};

/* Choose a part by its name, or say in one line that there is none. */
function named(parts, name, what) {
  if (!Object.hasOwn(parts, name)) throw new Error(`${what} ${name}`);
  return parts[name];
}

/* ---------------------------------------------------------------- attention */

/* softmax(score(query, key) + bias, over the allowed keys) @ value.

   query [h i e]; key [g j e'] and value [g j c], where g divides h; mask(i, j) says what may be seen, bias(h, i, j) is
   added to the scores; causal is right-aligned. A query that may attend to nothing gets weights 0 and output 0.
   Returns [h i], each with everything that led to it: { query, keys, values, scores, biases, weights, output }. */
function attend(query, key, value, { score, mask = null, bias = null, causal = false }) {
  const groups = query.length / key.length;
  return query.map((queries, h) => {
    const keys = key[Math.floor(h / groups)], values = value[Math.floor(h / groups)];
    const compared = keys.map(score.key);
    return queries.map((one, i) => {
      const last = causal ? keys.length - queries.length + i : keys.length - 1;
      const asked = score.query(one);
      const scores = compared.map((k, j) => score.compare(asked, k, j));
      const biases = bias ? keys.map((_, j) => bias(h, i, j)) : null;
      const allowed = keys.map((_, j) => j <= last && (!mask || mask(i, j)));
      const weights = distribution(biases ? add(scores, biases) : scores, allowed);
      const output = zeros(values.length ? values[0].length : 0);
      weights.forEach((weight, j) => {
        if (weight) for (let c = 0; c < output.length; c++) output[c] += weight * values[j][c];
      });
      return { query: one, keys, values, scores, biases, allowed, weights, output };
    });
  });
}

function distribution(scores, allowed) {
  if (!allowed.some(Boolean)) return scores.map(() => 0);
  return softmax(scores.map((score, j) => (allowed[j] ? score : -Infinity)));
}

/* A score compares what it makes of a query with what it makes of a key, made once for each key. */
function once(make) {
  const made = new WeakMap();
  return (key) => {
    if (!made.has(key)) made.set(key, make(key));
    return made.get(key);
  };
}

const same = (x) => x;

/* v . tanh(query + key) */
function tanhScore(query, key, v) {
  const compare = (a, b) => {
    let sum = 0;
    for (let k = 0; k < v.length; k++) sum += v[k] * Math.tanh(a[k] + b[k]);
    return sum;
  };
  return { query, key: once(key), compare };
}

const SCORES = {
  dot: () => ({ query: same, key: same, compare: dot }),
  scaled_dot: () => ({ query: (q) => scale(q, 1 / Math.sqrt(q.length)), key: same, compare: dot }),
  general: (weights, name) => ({ query: weights.linear(`${name}.proj`), key: same, compare: dot }),
  additive: (weights, name) =>
    tanhScore(weights.linear(`${name}.query_proj`), weights.linear(`${name}.key_proj`), weights.get(`${name}.v.weight`).data),
  concat: (weights, name) => {
    const { shape: [rows, columns], data } = weights.get(`${name}.proj.weight`);
    const bias = weights.get(`${name}.proj.bias`).data;
    const half = (vector, place) => {  // the matrix is over [query; key]: the other half meets zeros
      const whole = zeros(columns);
      whole.set(vector, place === "query" ? 0 : columns - vector.length);
      return product(data, rows, columns, whole, place === "query" ? bias : null);
    };
    return tanhScore((q) => half(q, "query"), (k) => half(k, "key"), weights.get(`${name}.v.weight`).data);
  },
  location: (weights, name) => {
    const longest = weights.get(`${name}.proj.weight`).shape[0];
    const compare = (asked, _, j) => {
      if (j >= longest) throw new TooLong(longest);
      return asked[j];
    };
    return { query: weights.linear(`${name}.proj`), key: same, compare };
  },
};

class TooLong extends Error {
  constructor(most) {
    super(`the model reads at most ${most} tokens`);
    this.most = most;
  }
}

/* ---------------------------------------------------------------- positions */

/* Added to embeddings: a function of the position. */
function sinusoidal(dim, layout) {
  return (position) => {
    const vector = zeros(dim);
    for (let k = 0; k < dim / 2; k++) {
      const angle = position * Math.exp((-Math.log(10000) * 2 * k) / dim);
      vector[layout === "halves" ? k : 2 * k] = Math.sin(angle);
      vector[layout === "halves" ? dim / 2 + k : 2 * k + 1] = Math.cos(angle);
    }
    return vector;
  };
}

function learned(weights, name) {
  const count = weights.get(name).shape[0];
  return (position) => {
    if (position >= count) throw new TooLong(count);
    return weights.row(name, position);
  };
}

/* Inside attention: { rotate(vector, position) } or { bias(h, from, to) }. */
function rotary(headDim, base = 10000) {
  const rotate = (x, position) => {
    const turned = zeros(headDim);
    for (let k = 0; k < headDim; k += 2) {
      const angle = position * base ** (-k / headDim), cos = Math.cos(angle), sin = Math.sin(angle);
      turned[k] = x[k] * cos - x[k + 1] * sin;
      turned[k + 1] = x[k] * sin + x[k + 1] * cos;
    }
    return turned;
  };
  return { rotate };
}

function alibi(numHeads) {
  const power = 2 ** Math.floor(Math.log2(numHeads));
  const slopes = range(power).map((k) => 2 ** ((-8 * (k + 1)) / power));
  slopes.push(...range(numHeads - power).map((k) => 2 ** ((-4 * (2 * k + 1)) / power)));
  return { bias: (h, from, to) => -slopes[h] * Math.abs(from - to) };
}

/* In single precision, as the package counts: where a bucket begins must not depend on rounding. */
function bucket(distance, bidirectional, numBuckets = 32, maxDistance = 128) {
  const buckets = bidirectional ? numBuckets / 2 : numBuckets, exact = buckets / 2, single = Math.fround;
  const offset = bidirectional && distance > 0 ? buckets : 0;
  const far = bidirectional ? Math.abs(distance) : Math.max(0, -distance);
  if (far < exact) return offset + far;
  const ratio = single(single(Math.log(single(far / exact))) / single(Math.log(maxDistance / exact)));
  return offset + Math.min(buckets - 1, exact + Math.trunc(single(ratio * (buckets - exact))));
}

function relativeBias(weights, name, bidirectional) {
  const { shape: [buckets, heads], data } = weights.get(name);
  return { bias: (h, from, to) => data[bucket(to - from, bidirectional, buckets) * heads + h] };
}

/* ---------------------------------------------------------------- layers */

function layerNorm(weights, name) {
  const scaleBy = weights.get(`${name}.weight`).data, shift = weights.get(`${name}.bias`).data;
  return (x) => {
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    const deviation = Math.sqrt(variance + 1e-5);
    return x.map((value, k) => ((value - mean) / deviation) * scaleBy[k] + shift[k]);
  };
}

function rmsNorm(weights, name, eps = 1e-6) {
  const scaleBy = weights.get(`${name}.weight`).data;
  return (x) => {
    const size = Math.sqrt(dot(x, x) / x.length + eps);
    return x.map((value, k) => (value / size) * scaleBy[k]);
  };
}

const NORMS = { layer: layerNorm, rms: rmsNorm };

class MultiHeadAttention {
  constructor(weights, name, { numHeads, numKvHeads = numHeads, score, normalize, project = true, position = null }) {
    Object.assign(this, { numHeads, numKvHeads, position, scoreName: score });
    named({ softmax }, normalize ?? "softmax", "normalizer");
    this.score = named(SCORES, score, "score")(weights, `${name}.score`);
    const part = (which) => (project ? weights.linear(`${name}.${which}_proj`) : same);
    [this.query, this.key, this.value, this.out] = ["q", "k", "v", "out"].map(part);
    const norm = (which) => (weights.has(`${name}.${which}.weight`) ? rmsNorm(weights, `${name}.${which}`, 2 ** -23) : same);
    [this.queryNorm, this.keyNorm] = ["q_norm", "k_norm"].map(norm);
  }

  /* Keys and values [g j e], made once. */
  projectContext(context, positions = range(context.length)) {
    const key = split(context.map(this.key), this.numKvHeads).map((rows) => this.turned(rows.map(this.keyNorm), positions));
    return { key, value: split(context.map(this.value), this.numKvHeads), positions };
  }

  /* Attend from x [i d] to what projectContext made. Returns { output [i d], attended [h i] }. */
  forward(x, context, { mask = null, causal = false, positions = range(x.length) } = {}) {
    const query = split(x.map(this.query), this.numHeads).map((rows) => this.turned(rows.map(this.queryNorm), positions));
    const bias = this.position && this.position.bias
      ? (h, i, j) => this.position.bias(h, positions[i], context.positions[j])
      : null;
    const attended = attend(query, context.key, context.value, { score: this.score, mask, bias, causal });
    const output = x.map((_, i) => this.out(joined(...attended.map((head) => head[i].output))));
    return { output, attended };
  }

  turned(rows, positions) {
    if (!this.position || !this.position.rotate) return rows;
    return rows.map((row, i) => this.position.rotate(row, positions[i]));
  }
}

/* [i (h e)] to [h i e] */
function split(rows, heads) {
  return range(heads).map((h) => rows.map((row) => row.subarray((h * row.length) / heads, ((h + 1) * row.length) / heads)));
}

function append(old, fresh) {
  const both = (name) => old[name].map((rows, g) => [...rows, ...fresh[name][g]]);
  return { key: both("key"), value: both("value"), positions: [...old.positions, ...fresh.positions] };
}

function feedForward(weights, name, activation) {
  const [fc1, fc2] = [weights.linear(`${name}.fc1`), weights.linear(`${name}.fc2`)];
  if (activation !== "swiglu") {
    const bend = named(ACTIVATIONS, activation, "activation");
    return (x) => fc2(fc1(x).map(bend));
  }
  const gate = weights.linear(`${name}.gate`);
  return (x) => {
    const open = gate(x);
    return fc2(fc1(x).map((value, k) => ACTIVATIONS.silu(value) * open[k]));
  };
}

class TransformerBlock {
  constructor(weights, name, config, position) {
    named({ none: true }, config.state ?? "none", "state");
    const settings = { numHeads: config.num_heads, score: config.score, normalize: config.normalize };
    const own = { ...settings, numKvHeads: config.num_kv_heads ?? config.num_heads };
    const norm = (part) => named(NORMS, config.norm, "norm")(weights, `${name}.${part}_norm`);
    this.selfAttn = new MultiHeadAttention(weights, `${name}.self_attn`, { ...own, position });
    this.selfAttnNorm = norm("self_attn");
    if (weights.has(`${name}.cross_attn_norm.weight`)) {
      this.crossAttn = new MultiHeadAttention(weights, `${name}.cross_attn`, own);
      this.crossAttnNorm = norm("cross_attn");
    }
    this.feedForward = feedForward(weights, `${name}.feed_forward`, config.activation);
    this.feedForwardNorm = norm("feed_forward");
    this.normFirst = config.norm_first;
  }

  /* x [i d] to { x, cache, own [h i], cross [h i] } */
  forward(x, { cache = null, mask = null, causal = false, positions, memory = null, memoryMask = null }) {
    let h = this.before(x, this.selfAttnNorm);
    const fresh = this.selfAttn.projectContext(h, positions);
    cache = cache ? append(cache, fresh) : fresh;
    const own = this.selfAttn.forward(h, cache, { mask, causal, positions });
    x = this.join(x, own.output, this.selfAttnNorm);
    const way = [["self", x[0]]];
    let cross = null;
    if (this.crossAttn) {
      h = this.before(x, this.crossAttnNorm);
      cross = this.crossAttn.forward(h, memory, { mask: memoryMask });
      x = this.join(x, cross.output, this.crossAttnNorm);
      way.push(["cross", x[0]]);
    }
    h = this.before(x, this.feedForwardNorm);
    x = this.join(x, h.map(this.feedForward), this.feedForwardNorm);
    way.push(["forward", x[0]]);
    return { x, cache, own: own.attended, cross: cross && cross.attended, way };
  }

  before(x, norm) { return this.normFirst ? x.map(norm) : x; }

  join(x, part, norm) {
    const sum = x.map((row, i) => add(row, part[i]));
    return this.normFirst ? sum : sum.map(norm);
  }
}

/* What a stack of blocks shares: embedding with positions, the blocks, the last norm. */
class Blocks {
  constructor(weights, name, config, { causal }) {
    this.embed = embedding(weights, `${name}embed`, config);
    const first = `${name}layers.0.self_attn.position.table.weight`;
    const INSIDE = {
      none: () => null, sinusoidal: () => null, learned: () => null,
      rotary: () => rotary(config.dim / config.num_heads),
      alibi: () => alibi(config.num_heads),
      t5: () => relativeBias(weights, first, !causal),
    };
    const position = named(INSIDE, config.position, "position")();
    this.layers = range(config.num_layers).map((n) => new TransformerBlock(weights, `${name}layers.${n}`, config, position));
    this.norm = config.norm_first ? named(NORMS, config.norm, "norm")(weights, `${name}norm`) : same;
  }
}

function embedding(weights, name, config) {
  const factor = config.scale_embedding ? Math.sqrt(config.dim) : 1;
  let position = null;
  if (config.position === "sinusoidal") position = sinusoidal(config.dim, config.sinusoid_layout);
  if (config.position === "learned") position = learned(weights, `${name}.position.table.weight`);
  return (id, place = 0) => {
    const x = scale(weights.row(`${name}.tokens.weight`, id), factor);
    return position ? add(x, position(place)) : x;
  };
}

/* ---------------------------------------------------------------- recurrent layers */

/* One step of an LSTM or GRU: (x, parts) to parts, (h, c) or (h). */
function lstm(weights, name) {
  const [input, hidden] = gates(weights, name);
  return (x, [h, c]) => {
    const all = add(input(x), hidden(h)), d = h.length, nextH = zeros(d), nextC = zeros(d);
    for (let k = 0; k < d; k++) {
      nextC[k] = sigmoid(all[d + k]) * c[k] + sigmoid(all[k]) * Math.tanh(all[2 * d + k]);
      nextH[k] = sigmoid(all[3 * d + k]) * Math.tanh(nextC[k]);
    }
    return [nextH, nextC];
  };
}

function gru(weights, name) {
  const [input, hidden] = gates(weights, name);
  return (x, [h]) => {
    const a = input(x), b = hidden(h), d = h.length;
    return [h.map((old, k) => {
      const reset = sigmoid(a[k] + b[k]), update = sigmoid(a[d + k] + b[d + k]);
      return (1 - update) * Math.tanh(a[2 * d + k] + reset * b[2 * d + k]) + update * old;
    })];
  };
}

function gates(weights, name) {
  return ["ih", "hh"].map((which) => {
    const { shape: [rows, columns], data } = weights.get(`${name}.weight_${which}_l0`);
    const bias = weights.get(`${name}.bias_${which}_l0`).data;
    return (x) => product(data, rows, columns, x, bias);
  });
}

const CELLS = { lstm, gru };

class RecurrentStack {
  constructor(weights, name, config) {
    const cell = named(CELLS, config.cell, "cell");
    const direction = config.direction || "forward";
    this.directions = direction === "both" ? ["forward", "backward"] : [direction];
    this.layers = range(config.num_layers).map((n) =>
      this.directions.map((_, which) => cell(weights, `${name}.layers.${n}.${which}`)));
    this.hiddenDim = config.hidden_dim;
    this.numParts = config.cell === "lstm" ? 2 : 1;
    this.residual = config.residual;
  }

  zero() { return range(this.numParts).map(() => zeros(this.hiddenDim)); }

  /* One token of a decoder: x [d] and, for each layer, its parts; a c that is not handed over is zero. */
  step(x, state) {
    const fresh = this.layers.map(([cell], n) => {
      const parts = this.zero().map((nothing, part) => (state && state[n][part]) || nothing);
      const next = cell(x, parts);
      x = this.residual && n ? add(x, next[0]) : next[0];
      return next;
    });
    return [x, fresh];
  }

  /* A whole source [s d]: the outputs [s d'] and each layer's final h, directions joined. */
  read(x) {
    const finals = this.layers.map((cells, n) => {
      const read = cells.map((cell, which) => {
        const backward = this.directions[which] === "backward", outputs = [];
        let parts = this.zero();
        for (const row of backward ? [...x].reverse() : x) {
          parts = cell(row, parts);
          outputs.push(parts[0]);
        }
        return { outputs: backward ? outputs.reverse() : outputs, parts };
      });
      x = x.map((row, i) => {
        const output = joined(...read.map((one) => one.outputs[i]));
        return this.residual && n ? add(row, output) : output;
      });
      return joined(...read.map((one) => one.parts[0]));
    });
    return [x, finals];
  }
}

/* ---------------------------------------------------------------- encoders: source ids to a memory

   A memory is { states [s d], visible(j), final, maps }: maps holds for each layer its attended [h i].
   `blocked` is a set of source places that no query may attend to. */

class RNNEncoder {
  constructor(weights, config) {
    this.embed = embedding(weights, "encoder.embed", {});
    this.stack = new RecurrentStack(weights, "encoder.stack", config);
  }

  forward(ids, blocked) {
    const [states, finals] = this.stack.read(ids.map((id) => this.embed(id)));
    return { states, visible: (j) => !blocked.has(j), final: finals, maps: [] };
  }
}

class TransformerEncoder extends Blocks {
  constructor(weights, config) { super(weights, "encoder.", config, { causal: false }); }

  forward(ids, blocked) {
    const visible = (j) => !blocked.has(j), positions = range(ids.length), maps = [];
    let x = ids.map((id, i) => (visible(i) ? this.embed(id, i) : scale(this.embed(id, i), 0)));
    for (const layer of this.layers) {
      const out = layer.forward(x, { mask: (_, j) => visible(j), positions });
      x = out.x;
      maps.push(out.own);
    }
    return { states: x.map(this.norm), visible, final: null, maps };
  }
}

/* One vector for the whole source. */
function summary({ states, visible, final }) {
  if (final) return final[final.length - 1];
  const kept = states.filter((_, j) => visible(j));
  const sum = kept.reduce(add, zeros(states[0].length));
  return scale(sum, 1 / Math.max(1, kept.length));
}

/* ---------------------------------------------------------------- decoders: start(memory), step(id, state)

   A step returns { logits, state, cross, own, way }, where cross and own hold for each layer its attended [h 1], and
   way the vectors that the token becomes, from its embedding to what the output layer reads: [part, vector, layer]. */

function wayThrough(first, outs, last) {
  const inner = outs.flatMap((out, layer) => out.way.map(([part, vector]) => [part, vector, layer]));
  return [["embedding", first], ...inner, ["read", last]];
}

class TransformerDecoder extends Blocks {
  constructor(weights, config) {
    super(weights, "decoder.", config, { causal: true });
    this.output = weights.linear("decoder.output");
  }

  start(memory) {
    const projected = this.layers.map((layer) => layer.crossAttn.projectContext(memory.states));
    return { caches: this.layers.map(() => null), memory: projected, visible: memory.visible, position: 0 };
  }

  step(id, { caches, memory, visible, position }) {
    const first = this.embed(id, position);
    let x = [first];
    const outs = this.layers.map((layer, n) => {
      const out = layer.forward(x, {
        cache: caches[n], positions: [position], memory: memory[n], memoryMask: (_, j) => visible(j),
      });
      x = out.x;
      return out;
    });
    const state = { caches: outs.map((out) => out.cache), memory, visible, position: position + 1 };
    const last = this.norm(x[0]);
    return {
      logits: this.output(last), state, cross: outs.map((out) => out.cross), own: outs.map((out) => out.own),
      way: wayThrough(first, outs, last),
    };
  }
}

/* What the RNN decoders share: embedding, stack, bridge, output. */
class RNNDecoder {
  constructor(weights, config) {
    this.embed = embedding(weights, "decoder.embed", {});
    this.stack = new RecurrentStack(weights, "decoder.stack", config);
    this.output = weights.linear("decoder.output");
    this.initial = config.initial_state;
    const { num_layers: layers } = config, parts = this.stack.numParts;
    this.projections = this.initial === "project"
      ? range(layers * parts).map((n) => weights.linear(`decoder.bridge.projections.${n}`))
      : [];
    if (!["none", "peeky"].includes(config.attention)) {
      this.crossAttn = new MultiHeadAttention(weights, "decoder.cross_attn", {
        numHeads: config.num_heads, score: config.score, normalize: config.normalize, project: config.project,
      });
    }
  }

  /* The first state from the encoder's last: for each layer its parts. */
  bridge(memory) {
    const parts = this.stack.numParts;
    if (this.initial === "copy") return memory.final.map((h) => [h]);
    return this.stack.layers.map((_, n) => {
      const h = memory.final && n < memory.final.length ? memory.final[n] : summary(memory);
      return range(parts).map((part) => this.projections[n * parts + part](h).map(Math.tanh));
    });
  }

  attention(query, state) {
    const { output, attended } = this.crossAttn.forward([query], state.memory, { mask: (_, j) => state.visible(j) });
    return [output[0], [attended]];
  }
}

class PlainDecoder extends RNNDecoder {
  constructor(weights, config) {
    super(weights, config);
    this.peeky = config.attention === "peeky";
  }

  start(memory) { return { recurrent: this.bridge(memory), fed: this.peeky ? summary(memory) : zeros(0) }; }

  step(id, { recurrent, fed }) {
    const x = this.embed(id), [h, next] = this.stack.step(joined(fed, x), recurrent), read = joined(fed, h);
    const way = [["embedding", x], ["hidden", h], ...(fed.length ? [["read", read]] : [])];
    return { logits: this.output(read), state: { recurrent: next, fed }, cross: [], own: [], way };
  }
}

/* Attention after the RNN: textbook, and with `combine` Luong's. */
class AttentionDecoder extends RNNDecoder {
  constructor(weights, config) {
    super(weights, config);
    this.combine = config.attention === "luong" ? weights.linear("decoder.combine") : null;
    this.fedWidth = config.input_feeding ? weights.get("decoder.combine.weight").shape[0] : 0;
  }

  start(memory) {
    const projected = this.crossAttn.projectContext(memory.states);
    return { recurrent: this.bridge(memory), fed: zeros(this.fedWidth), memory: projected, visible: memory.visible };
  }

  step(id, state) {
    const x = this.embed(id), [h, recurrent] = this.stack.step(joined(x, state.fed), state.recurrent);
    const [context, cross] = this.attention(h, state);
    let both = joined(context, h);
    if (this.combine) both = this.combine(both).map(Math.tanh);
    const way = [["embedding", x], ["hidden", h], ["context", context], ["read", both]];
    return { logits: this.output(both), state: { ...state, recurrent, fed: this.fedWidth ? both : state.fed }, cross, own: [], way };
  }
}

/* Attention before the RNN: the previous state asks. */
class BahdanauDecoder extends RNNDecoder {
  constructor(weights, config) {
    super(weights, config);
    this.maxout = weights.linear("decoder.maxout");
  }

  start(memory) {
    return { recurrent: this.bridge(memory), memory: this.crossAttn.projectContext(memory.states), visible: memory.visible };
  }

  step(id, state) {
    const x = this.embed(id), layers = state.recurrent;
    const [context, cross] = this.attention(layers ? layers[layers.length - 1][0] : zeros(this.stack.hiddenDim), state);
    const [h, recurrent] = this.stack.step(joined(x, context), layers);
    const pairs = this.maxout(joined(h, context, x));
    const larger = zeros(pairs.length / 2).map((_, k) => Math.max(pairs[2 * k], pairs[2 * k + 1]));
    const way = [["embedding", x], ["context", context], ["hidden", h], ["read", larger]];
    return { logits: this.output(larger), state: { ...state, recurrent }, cross, own: [], way };
  }
}

/* ---------------------------------------------------------------- models: encode(ids, blocked), start, step */

class EncoderDecoder {
  constructor(weights, config) {
    const ENCODERS = { "rnn-encoder": RNNEncoder, transformer: TransformerEncoder };
    const ATTENTION = {
      none: PlainDecoder, peeky: PlainDecoder, textbook: AttentionDecoder, luong: AttentionDecoder, bahdanau: BahdanauDecoder,
    };
    this.encoder = new (named(ENCODERS, config.encoder.kind, "encoder"))(weights, config.encoder);
    const DECODERS = { "rnn-decoder": ATTENTION, transformer: { undefined: TransformerDecoder } };
    const decoders = named(DECODERS, config.decoder.kind, "decoder");
    this.decoder = new (named(decoders, String(config.decoder.attention), "attention"))(weights, config.decoder);
  }

  encode(ids, blocked) { return this.encoder.forward(ids, blocked); }

  start(memory) { return this.decoder.start(memory); }

  step(id, state) { return this.decoder.step(id, state); }
}

/* Source and target as one sequence; a step's attention is cut into that to the source and that to the target. */
class DecoderOnly extends Blocks {
  constructor(weights, config) {
    super(weights, "", config.stack, { causal: true });
    this.output = weights.linear("output");
    this.bidirectional = config.bidirectional_prefix;
  }

  encode(ids, blocked) {
    const visible = (j) => !blocked.has(j);
    const mask = (i, j) => visible(j) && (j <= i || this.bidirectional);
    const { caches, maps } = this.read(ids.map((id, i) => ({ id, visible: visible(i) })), 0, null, mask);
    return { states: [], visible, caches, maps, length: ids.length };
  }

  start(memory) { return memory; }

  step(id, { visible, caches, length: place, source = place }) {
    const mask = (_, j) => j >= source || visible(j);
    const { first, x, outs, caches: grown, maps } = this.read([{ id, visible: true }], place, caches, mask);
    const part = (from, to) => maps.map((heads) => heads.map((rows) => rows.map((one) => section(one, from, to))));
    return {
      logits: this.output(x[0]), state: { visible, caches: grown, length: place + 1, source },
      cross: source ? part(0, source) : [], own: part(source, place + 1), way: wayThrough(first, outs, x[0]),
    };
  }

  read(tokens, start, caches, mask) {
    const positions = range(tokens.length, start);
    let x = tokens.map(({ id, visible }, i) => scale(this.embed(id, positions[i]), visible ? 1 : 0));
    const first = x[0];
    const outs = this.layers.map((layer, n) => {
      const out = layer.forward(x, { cache: caches && caches[n], mask, positions });
      x = out.x;
      return out;
    });
    return { first, x: x.map(this.norm), outs, caches: outs.map((out) => out.cache), maps: outs.map((out) => out.own) };
  }
}

/* Some of the keys of one distribution; `offset` and `whole` lead back to all of them. */
function section(whole, from, to) {
  return { ...whole, weights: whole.weights.slice(from, to), offset: from, whole };
}

function buildModel(config, weights) {
  return new (named({ "encoder-decoder": EncoderDecoder, "decoder-only": DecoderOnly }, config.kind, "model"))(weights, config);
}

/* ---------------------------------------------------------------- decoding */

const SPECIALS = { pad: 0, bos: 1, eos: 2, unk: 3 };

/* A text as training and the library read it: clean_text of selfattn/data/pairs.py. */
function cleanText(text) {
  const spaced = text.replace(/[\t-\r\x1c-\x1f\x85\u2028\u2029]/g, " ");
  return spaced.replace(/[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]/g, "").normalize("NFC").trim();
}

/* The zeros of all decimal digits of Unicode; nine more digits follow each. */
const ZEROS = [
  0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
  0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620,
  0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0,
  0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60,
  0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/* Characters that a vocabulary lacks in their plain form: plain_text of selfattn/data/pairs.py. */
function plainText(text, known) {
  const plain = (character) => {
    if (known.has(character)) return character;
    if (/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(character)) return "";
    if (/[\u00a0\u2000-\u200a\u202f\u205f\u3000]/.test(character)) return " ";
    const code = character.codePointAt(0), zero = ZEROS.find((start) => start <= code && code < start + 10);
    return zero === undefined ? character : String(code - zero);
  };
  return [...text].map(plain).join("").trim();
}

/* One token for each character; ids follow the code points after the four specials. */
class CharTokenizer {
  constructor(characters) {
    this.characters = [...characters];
    this.ids = new Map(this.characters.map((character, k) => [character, k + 4]));
  }

  encode(text) { return this.split(text).map((character) => this.ids.get(character) ?? SPECIALS.unk); }

  /* A text as this model reads it. */
  clean(text) { return plainText(cleanText(text), this.ids); }

  /* The text of each token of encode(text). */
  split(text) { return [...text]; }

  unknown(text) { return this.split(text).filter((character) => !this.ids.has(character)); }

  piece(id) { return id === SPECIALS.unk ? "\ufffd" : this.characters[id - 4] ?? ""; }

  decode(ids) { return ids.map((id) => this.piece(id)).join(""); }
}

/* One token for each letter of a character: its canonical decomposition, put together again in outputs. */
class LetterTokenizer extends CharTokenizer {
  split(text) { return [...text].flatMap((character) => [...character.normalize("NFD")]); }

  decode(ids) { return super.decode(ids).normalize("NFC"); }
}

/* Words that a vocabulary lacks in their plain form; several spaces become one. The same as `plain_words` of
   selfattn.data.pairs. */
function plainWords(text, known) {
  const words = text.split(" ").flatMap((word) => (known.has(word) ? [word] : plainText(word, new Set()).split(" ")));
  return words.filter((word) => word || known.has("")).join(" ").trim();
}

/* One token for each word: what stands between two spaces; ids follow the words of the data after the four specials. */
class WordTokenizer {
  constructor({ words }) {
    this.words = words;
    this.ids = new Map(words.map((word, k) => [word, k + 4]));
  }

  encode(text) { return this.split(text).map((word) => this.ids.get(word) ?? SPECIALS.unk); }

  clean(text) { return plainWords(cleanText(text), this.ids); }

  split(text) { return text ? text.split(" ") : []; }

  unknown(text) { return this.split(text).filter((word) => !this.ids.has(word)); }

  piece(id) { return id === SPECIALS.unk ? "\ufffd" : this.words[id - 4] ?? ""; }

  decode(ids) { return ids.map((id) => this.piece(id)).join(" "); }
}

const SPACE = "\u2581"; // sentencepiece's sign for a space

/* Pieces of words, segmented as sentencepiece does it. A piece has a score; `bytes` says whether what has no piece is
   written as bytes. */
class SubwordTokenizer {
  constructor({ kind, pieces, scores, bytes }) {
    Object.assign(this, { pieces, scores, bytes, segment: kind === "bpe" ? this.merged : this.mostProbable });
    this.isByte = pieces.map((piece) => bytes && /^<0x[0-9A-F]{2}>$/.test(piece));
    this.ids = new Map(pieces.map((piece, id) => [piece, id]).filter(([, id]) => id > SPECIALS.unk && !this.isByte[id]));
    this.byteIds = new Map(pieces.map((piece, id) => [piece, id]).filter(([, id]) => this.isByte[id]));
    this.longest = [...this.ids.keys()].reduce((most, piece) => Math.max(most, [...piece].length), 1);
    this.unknownScore = Math.fround([...this.ids.values()].reduce((least, id) => Math.min(least, scores[id]), 0) - 10);
    this.apart = /\u2581|[\ud800-\udfff]/gu; // what sentencepiece cannot read: its own sign, and half a character
  }

  /* The best path through all pieces (unigram), in 32-bit sums; of equal paths the one whose last piece is longest. */
  mostProbable(characters) {
    const best = [{ score: 0 }];
    for (let start = 0; start < characters.length; start++) {
      const offer = (end, piece, score) => {
        const sum = Math.fround(score + best[start].score);
        if (!best[end] || sum > best[end].score) best[end] = { score: sum, start, piece };
      };
      for (let end = start + 1; end <= Math.min(start + this.longest, characters.length); end++) {
        const piece = characters.slice(start, end).join(""), id = this.ids.get(piece);
        if (id !== undefined) offer(end, piece, this.scores[id]);
        else if (end === start + 1) offer(end, piece, this.unknownScore);
      }
    }
    const found = [];
    for (let end = characters.length; end > 0; end = best[end].start) found.unshift(best[end].piece);
    return found;
  }

  /* Merge the neighbours with the highest score, the leftmost first, while any are a piece (BPE). */
  merged(characters) {
    const parts = [...characters];
    for (;;) {
      let at = -1, most = -Infinity;
      for (let k = 0; k + 1 < parts.length; k++) {
        const id = this.ids.get(parts[k] + parts[k + 1]);
        if (id !== undefined && this.scores[id] > most) [at, most] = [k, this.scores[id]];
      }
      if (at < 0) return parts;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }

  encode(text) {
    const ids = [];
    let end = 0;
    const add = (piece) => {
      const id = this.ids.get(piece);
      if (id !== undefined) ids.push(id);
      else if (this.bytes) ids.push(...this.bytesOf(piece));
      else if (ids[ids.length - 1] !== SPECIALS.unk) ids.push(SPECIALS.unk);
    };
    const cut = (part, isFirst) => {
      if (part || (isFirst && text)) this.segment([...(isFirst ? " " : "") + part].map((c) => (c === " " ? SPACE : c))).forEach(add);
    };
    for (const match of text.matchAll(this.apart)) {
      cut(text.slice(end, match.index), end === 0);
      if (match[0] === SPACE && this.bytes) ids.push(...this.bytesOf(SPACE));
      else ids.push(SPECIALS.unk);
      end = match.index + match[0].length;
    }
    cut(text.slice(end), end === 0);
    return ids;
  }

  bytesOf(text) {
    return [...new TextEncoder().encode(text)].map((byte) => this.byteIds.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`));
  }

  clean(text) { return cleanText(text); }

  split(text) { return this.encode(text).map((id) => this.piece(id)); }

  unknown(text) { return this.encode(text).includes(SPECIALS.unk) ? ["\ufffd"] : []; }

  piece(id) { return id === SPECIALS.unk ? "\ufffd" : id < SPECIALS.unk ? "" : this.pieces[id].replaceAll(SPACE, "␣"); }

  decode(ids) {
    const codes = ids.flatMap((id) => (this.isByte[id]
      ? [parseInt(this.pieces[id].slice(3, 5), 16)]
      : [...new TextEncoder().encode(id === SPECIALS.unk ? "\ufffd" : id < SPECIALS.unk ? "" : this.pieces[id].replaceAll(SPACE, " "))]));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(codes)).replace(/^ /, "");
  }
}

/* A tokenizer from the page's data: a text of all characters, or the description of letters, words or subwords. */
function makeTokenizer(data) {
  if (typeof data === "string") return new CharTokenizer(data);
  if (data.kind === "letters") return new LetterTokenizer(data.letters);
  return data.kind === "words" ? new WordTokenizer(data) : new SubwordTokenizer(data);
}

/* The most probable; of equal ones the first. */
function best(probabilities) {
  return probabilities.reduce((most, value, id) => (value > probabilities[most] ? id : most), 0);
}

/* Write a target for source ids that end with <eos>, at most `limit` tokens, <eos> counted.

   `choose` maps probabilities and the step's number to the next id; `given` are ids to write whatever the model says,
   all of them; after `forced` ids the model goes on by itself.
   Returns { encoder, states, steps, ids, finished }: for each step { id, logits, probabilities, cross, own, way }. */
function write(model, source, { limit, temperature = 1, blocked = new Set(), choose = best, given = null, forced = [] }) {
  const memory = model.encode(source, blocked), steps = [];
  let state = model.start(memory), id = SPECIALS.bos;
  while (steps.length < (given ? given.length : limit)) {
    const { logits, state: next, cross, own, way } = model.step(id, state), place = steps.length;
    const probabilities = softmax(scale(logits, 1 / temperature));
    id = given ? given[place] : place < forced.length ? forced[place] : choose(probabilities, place);
    state = next;
    steps.push({ id, logits, probabilities, cross, own, way });
    if (id === SPECIALS.eos) break;
  }
  const finished = steps.length > 0 && steps[steps.length - 1].id === SPECIALS.eos;
  const ids = steps.map((step) => step.id);
  return { encoder: memory.maps, states: memory.states, steps, ids: finished ? ids.slice(0, -1) : ids, finished };
}

/* Beam search as beam_search of selfattn/decoding/beam.py does it, without a length penalty, for the best output.

   The output begins with the ids `forced`.
   Returns { ids, total, finished, levels }: levels are the beginnings of every step that went on or ended,
   [{ id, parent, total, ended }], where parent is the place of a beginning in the level before. */
function beamSearch(model, source, { limit, width, blocked = new Set(), forced = [] }) {
  const more = (a, b) => b.total - a.total;
  const levels = [];
  let live = [{ ids: [], total: 0, state: model.start(model.encode(source, blocked)), place: null }], top = null;
  for (let length = 1; ; length++) {
    const next = live.flatMap(({ ids, total, state, place }) => {
      const { logits, state: after } = model.step(ids.length ? ids[ids.length - 1] : SPECIALS.bos, state);
      const probabilities = softmax(logits);
      const order = length <= forced.length
        ? [forced[length - 1]]
        : range(probabilities.length).sort((a, b) => logits[b] - logits[a] || a - b).slice(0, width + 1);
      return order.map((id) => ({ id, ids: [...ids, id], total: total + Math.log(probabilities[id]), state: after, parent: place }));
    }).sort(more);
    const ended = next.slice(0, width).filter((one) => one.id === SPECIALS.eos);
    live = next.filter((one) => one.id !== SPECIALS.eos).slice(0, width);
    const level = [...ended, ...live].sort(more);
    level.forEach((one, place) => { one.place = place; });
    levels.push(level.map(({ id, parent, total }) => ({ id, parent, total, ended: id === SPECIALS.eos })));
    for (const one of ended) if (!top || one.total > top.total) top = { ...one, ids: one.ids.slice(0, -1), finished: true };
    if (length === limit && !top) top = { ...live[0], finished: false };
    if (length === limit || !live.length || (top && live[0].total <= top.total)) break;
  }
  return { ids: top.ids, total: top.total, finished: top.finished, levels };
}

/* Attention rollout (Abnar and Zuidema 2020): the mean of the heads of each layer, half of it the token itself, from
   the first layer on; [i j] from the weights of layers [layer][head][i] = weights [j]. */
function rollout(layers) {
  let whole = null;
  for (const heads of layers) {
    const size = heads[0].length;
    const mixed = range(size).map((i) => range(size).map((j) =>
      0.5 * (i === j) + (0.5 * heads.reduce((sum, rows) => sum + (rows[i][j] ?? 0), 0)) / heads.length));
    whole = whole ? mixed.map((row) => range(size).map((j) => row.reduce((sum, share, k) => sum + share * whole[k][j], 0))) : mixed;
  }
  return whole;
}
