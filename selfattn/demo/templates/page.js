
/* ================================================================ the page around the models */

(function demo() {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.classList.add("js");
  const byId = (id) => document.getElementById(id);
  const calm = 350;  // milliseconds a step while the page writes by itself

  const state = {
    blocked: new Set(), step: Infinity, temperature: 1, draw: false, seed: 1,
    hidden: new Set(), choice: Object.create(null), cell: null, playing: null, open: new Set(),
    asking: false,  // the reader guesses where the present step looks; its weights are not shown yet
  };
  let source = [];  // characters that are read, <eos> at the end

  /* ---------------------------------------------------------------- words and elements */

  function say(key, values = {}) {
    const counted = page.words[root.lang][key].replace(/\{(\w+)\?([^{}|]*)\|([^{}|]*)\}/g, (whole, name, one, many) => (values[name] === 1 ? one : many));
    const text = counted.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
    // A word joiner before a Korean particle: lines would break between it and the sign before.
    return text.replace(/(?<=[%)\]”’])(?=[가-힣])/g, "\u2060");
  }

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === false) continue;
      if (name.startsWith("--")) element.style.setProperty(name, value);
      else if (name === "press") element.addEventListener("click", value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  function drawing(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /* A token as it is shown: a space and the end can be seen. */
  function shown(character) {
    if (character === "") return "⏎";
    if (character === " ") return "␣";
    return /\p{C}|\p{Zl}|\p{Zp}|\p{Zs}/u.test(character) ? `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>` : character;
  }

  function token(character) { return make("bdi", { class: "mono token" }, shown(character)); }

  function share(probability) {
    const percent = (value) => say("percent", { value });
    if (probability >= 0.9995) return percent("100");
    if (probability >= 0.001) return percent((100 * probability).toFixed(1));
    if (probability === 0) return percent("0");
    const power = Math.floor(Math.log10(probability));
    const raised = [...String(-power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
    return `${(probability / 10 ** power).toFixed(1)} × 10⁻${raised}`;
  }

  function number(value, digits = 3) { return value.toFixed(digits).replace("-", "−"); }

  /* Redraw a part of the page; what had the focus in it has it again. */
  function redraw(place, ...children) {
    const active = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const scrolled = [...place.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
    place.replaceChildren(...children.filter((child) => child !== null));
    place.querySelectorAll(".scroll").forEach((one, k) => scrolled[k] && one.scrollTo(...scrolled[k]));
    if (active) {
      const again = place.querySelector(`[data-key="${CSS.escape(active)}"]`);
      if (again) again.focus({ preventScroll: true });
    }
  }

  /* ---------------------------------------------------------------- the models */

  const models = [...document.querySelectorAll("script.model")].map((script) => {
    const model = JSON.parse(script.textContent);
    script.remove();
    if (model.reason) return model;
    try {
      model.network = buildModel(model.config, new Weights(model.weights));
      model.source = makeTokenizer(model.source);
      model.target = makeTokenizer(model.target);
      delete model.weights;
    } catch (error) {
      model.error = error.message;
    }
    return model;
  });
  const working = models.filter((model) => model.network);

  /* A language model has no source: it reads the text as the beginning of what it writes. */
  function ids(model, text) { return model.continues ? [] : [...model.source.encode(model.source.clean(text)), SPECIALS.eos]; }

  /* The tokens that a language model goes on from: as in the library, the last that half of its context holds. */
  function beginning(model, text) {
    return model.continues ? model.source.encode(text.normalize("NFC")).slice(-Math.max(1, Math.floor(model.max_length / 2))) : [];
  }

  /* The tokens that an output is made to begin with, cleaned as in the library; spaces at the end stay. */
  function prefix(model, limit) {
    const text = cleanText(`${byId("prefix").value}|`).slice(0, -1);
    if (model.continues || !text) return [];
    const wanted = model.target.encode(text);
    if (wanted.includes(SPECIALS.unk) || model.target.decode(wanted) !== text) throw new Error(say("prefix.unknown"));
    if (wanted.length >= limit) throw new Error(say("prefix.long"));
    return wanted;
  }

  function characters(model, written) { return written.map((id) => (id === SPECIALS.eos ? "" : model.target.piece(id))); }

  /* The same numbers for the same seed, one for each step. */
  function random(seed, step) {
    let t = (seed * 1000003 + step * 7919 + 0x6d2b79f5) | 0;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  function drawn(probabilities, step) {
    let left = random(state.seed, step);
    for (let id = 0; id < probabilities.length; id++) if ((left -= probabilities[id]) < 0) return id;
    return best(probabilities);
  }

  function probability(trace) {
    return Math.exp(trace.steps.slice(trace.read || 0).reduce((sum, step) => sum + Math.log(step.probabilities[step.id]), 0));
  }

  /* The most tokens of an output: for an input longer than all of the training, more in proportion. */
  function outputLimit(model, input) {
    if (model.continues) return model.max_length + 1;
    if (!model.longest_source) return model.max_length;
    const { target, together } = model.positions;
    const longer = Math.ceil((model.max_length * input.length) / model.longest_source);
    return Math.max(model.max_length, Math.min(longer, target ?? Infinity, together === null ? Infinity : together - input.length));
  }

  /* Everything that a model is asked for the present input. */
  function ask(model, text, right) {
    const input = ids(model, text), limit = outputLimit(model, input);
    const begun = model.continues ? beginning(model, byId("text").value) : prefix(model, limit);
    const options = { limit, temperature: state.temperature, choose: state.draw ? drawn : best };
    const start = performance.now();
    const trace = write(model.network, input, { ...options, blocked: state.blocked, forced: model.forced || begun });
    trace.begun = begun.length;
    trace.read = model.continues ? begun.length : 0;  // a probability is that of what the model has written
    const ms = performance.now() - start;
    const free = state.blocked.size || model.forced ? write(model.network, input, { ...options, forced: begun }) : null;
    if (free) Object.assign(free, { begun: trace.begun, read: trace.read });
    const told = { trace, ms, free, begun, limit: options.limit, output: model.target.decode(trace.ids), right: null };
    if (right) {
      const wanted = model.target.encode(right);
      if (model.continues) told.cannot = "right.lm";
      else if (wanted.includes(SPECIALS.unk)) told.cannot = "right.unknown";
      else if (wanted.length >= options.limit) told.cannot = "right.long";
      else told.right = write(model.network, input, { ...options, blocked: state.blocked, given: [...wanted, SPECIALS.eos] });
      if (!model.continues) told.isRight = told.output === right && trace.finished;
    }
    return told;
  }

  /* Write another token at a step, and let the model go on from there; null lets it go. */
  function force(model, id) {
    const step = state.step - 1, { trace } = model.told;
    model.forced = id === null ? null : [...trace.steps.slice(0, step).map((one) => one.id), id];
    const asked = state.step;
    askAll();
    goTo(asked);
  }

  function askAll() {
    const first = working[0], typed = cleanText(byId("text").value), right = cleanText(byId("right").value);
    const text = first && !first.continues ? first.source.clean(typed) : typed;
    source = text ? [...(first ? first.source.split(text) : text), ""] : [];
    byId("reading").hidden = byId("beginning").hidden = Boolean(first && first.continues);
    for (const model of working) {
      model.told = model.failed = null;
      if (!source.length || state.hidden.has(model.name)) continue;
      try {
        model.told = ask(model, text, right);
      } catch (error) {
        model.failed = error instanceof TooLong ? say("cannot.long", { most: error.most }) : error.message;
      }
    }
    drawAll();
    tell(outputs);
  }

  /* What a screen reader is told, when the reader has come to rest. */
  let later = 0;
  function tell(sentence) {
    clearTimeout(later);
    later = setTimeout(() => { byId("said").textContent = sentence(); }, 700);
  }

  function outputs() {
    return working.filter((model) => model.told).map((model) => {
      const { told } = model, verdict = told.isRight === undefined ? "" : ` ${say(told.isRight ? "is.right" : "is.wrong")}.`;
      return say("said", { model: model.name, output: told.output, share: share(probability(told.trace)) }) + verdict;
    }).join(" ");
  }

  function tokensOfStep() {
    const written = working.filter((model) => model.told && model.told.trace.steps[state.step - 1]).map((model) => {
      const { id, probabilities } = model.told.trace.steps[state.step - 1];
      return say("said", { model: model.name, output: shown(characters(model, [id])[0]), share: share(probabilities[id]) });
    });
    return [`${say("step", { step: state.step, steps: steps() })}.`, ...written].join(" ");
  }

  function cellOf(model) {
    const box = panels.get(model.name).querySelector(".inside");
    return box ? [...box.querySelectorAll("h3, .sum")].map((one) => one.textContent).join(". ") : "";
  }

  /* ---------------------------------------------------------------- drawing */

  function steps() { return Math.max(1, ...working.map((model) => (model.told ? model.told.trace.steps.length : 0))); }

  function drawAll() {
    byId("work").hidden = !source.length;
    byId("nothing").hidden = source.length > 0;
    byId("again").hidden = !state.draw;
    byId("heat").textContent = number(state.temperature, 1);
    drawUnknown();
    drawSource();
    drawSteps();
  }

  function drawUnknown() {
    const strange = [...new Set(working.flatMap((model) => model.source.unknown(model.continues ? byId("text").value : model.source.clean(byId("text").value))))];
    byId("unknown").hidden = !strange.length;
    byId("unknown").textContent = strange.length ? say("unknown", { characters: strange.map(shown).join(" ") }) : "";
  }

  /* The source: every token a button that blocks it; arrow keys move among them. */
  function drawSource() {
    const buttons = source.map((character, place) => make("button", {
      type: "button", class: "read", "data-key": `read-${place}`, "aria-pressed": String(state.blocked.has(place)),
      tabindex: place === (state.reading ?? 0) ? 0 : -1, press: () => block(place),
    }, make("bdi", {}, shown(character))));
    redraw(byId("source"), ...buttons);
    byId("clear").hidden = !state.blocked.size;
  }

  function block(place) {
    state.reading = place;
    if (!state.blocked.delete(place)) state.blocked.add(place);
    askAll();
  }

  function walk(container, selector, moved) {
    container.addEventListener("keydown", (event) => {
      const all = [...container.querySelectorAll(selector)], here = all.indexOf(event.target.closest(selector));
      const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: all.length - 1 }[event.key];
      if (here < 0 || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      moved(all, Math.max(0, Math.min(all.length - 1, to)));
    });
  }

  walk(byId("source"), ".read", (all, to) => {
    state.reading = to;
    all.forEach((one, k) => { one.tabIndex = k === to ? 0 : -1; });
    all[to].focus();
  });

  function goTo(step) {
    state.asking = false;
    state.step = Math.max(1, Math.min(steps(), step));
    drawSteps();
    tell(tokensOfStep);
  }

  function drawSteps() {
    const count = steps();
    if (state.step > count) state.step = count;
    const slider = byId("step");
    slider.max = count;
    slider.value = state.step;
    const place = say("step", { step: state.step, steps: count });
    slider.setAttribute("aria-valuetext", place);
    byId("place").textContent = place;
    byId("first").disabled = byId("back").disabled = state.step === 1;
    byId("last").disabled = byId("forward").disabled = state.step === count;
    for (const model of models) drawModel(model);
  }

  const panels = new Map(models.map((model) => {
    const panel = make("section", { class: `panel m${model.colour}`, "aria-label": model.name, "data-model": model.name });
    byId("models").append(panel);
    walk(panel, ".wrote", (all, to) => {
      goTo(to + 1);
      panel.querySelectorAll(".wrote")[to].focus();
    });
    panel.addEventListener("keydown", (event) => moveInMap(model, event));
    return [model.name, panel];
  }));

  function sign(model) {
    const svg = drawing("svg", { class: "sign", viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" });
    svg.append(drawing("path", { d: model.path }));
    return svg;
  }

  function drawModel(model) {
    const panel = panels.get(model.name), { told } = model;
    panel.hidden = state.hidden.has(model.name);
    if (panel.hidden) return;
    const title = make("h2", { class: "model" }, sign(model), model.name);
    if (told) title.append(make("small", {}, say("time", { ms: told.ms < 10 ? told.ms.toFixed(1) : Math.round(told.ms) })));
    if (!told) {
      const reason = model.reason ? say(model.reason) : model.error && say("cannot.part", { part: model.error });
      redraw(panel, title, make("p", { class: "note" }, reason ? say("cannot", { reason }) : model.failed || ""));
      return;
    }
    if (told.isRight !== undefined) {
      const right = told.isRight;
      title.append(make("span", { class: right ? "right" : "wrong" }, `${right ? "✓" : "✗"} ${say(right ? "is.right" : "is.wrong")}`));
    }
    // The same number of parts in every panel, so that they stand in line.
    const parts = [title, outputRow(model), outputNotes(model), freeRow(model), rightRow(model), candidates(model), ...attention(model), inside(model), more(model)];
    redraw(panel, ...parts.map((part) => part || make("div")));
    showLargest(panel);
    const chosen = panel.querySelector(".softmax tr.here");
    if (chosen) chosen.closest(".scroll").scrollTop = chosen.offsetTop - 90;
  }

  /* Scroll a map that is too wide to the open cell, or to the largest weight of the present step. */
  function showLargest(panel) {
    const frame = panel.querySelector(".attention .scroll"), cells = [...panel.querySelectorAll(".map tr.now td")];
    if (!cells.length) return;
    const weight = (td) => Number(td.style.getPropertyValue("--w"));
    const cell = panel.querySelector(".map td.spot") || cells.reduce((most, td) => (weight(td) > weight(most) ? td : most));
    const left = cell.offsetLeft, head = cells[0].offsetLeft, end = left + 2 * cell.offsetWidth;
    if (left < frame.scrollLeft + head || end > frame.scrollLeft + frame.clientWidth) frame.scrollLeft = left - (head + frame.clientWidth) / 2;
  }

  /* What was written, a button a token with its probability; the button goes to its step. */
  function outputRow(model) {
    const { trace, free } = model.told, was = free && characters(model, free.steps.map((step) => step.id));
    const row = make("div", { class: "tokens wrote-row", role: "group", "aria-label": say("output", { model: model.name }) });
    const last = Math.min(state.step, trace.steps.length);
    characters(model, trace.steps.map((step) => step.id)).forEach((character, k) => {
      const p = trace.steps[k].probabilities[trace.steps[k].id];
      const isForced = model.forced && k === model.forced.length - 1;
      const kind = [k + 1 === state.step && "now", k + 1 > state.step && "ahead", k < trace.begun && "begun", was && was[k] !== character && "changed", isForced && "forced"];
      row.append(make("button", {
        type: "button", class: `wrote ${kind.filter(Boolean).join(" ")}`, "data-key": `wrote-${k}`, tabindex: k + 1 === last ? 0 : -1,
        "aria-current": k + 1 === state.step ? "step" : null, "aria-label": say("token", { token: shown(character), share: share(p) }),
        press: () => goTo(k + 1),
      }, token(character), probabilityBar(p)));
    });
    return row;
  }

  function probabilityBar(p) {
    return make("span", { class: "odds", "aria-hidden": "true", "--p": p }, make("i"), make("small", {}, p >= 0.995 ? "100" : (100 * p).toFixed(p < 0.1 ? 1 : 0)));
  }

  function outputNotes(model) {
    const { trace, free, limit, right, cannot, isRight } = model.told;
    const notes = [say("whole", { share: share(probability(trace)) })];
    if (!trace.finished) notes.push(say("cut", { limit }));
    if (state.blocked.size && !hasAttention(model)) notes.push(say("before.none"));
    if (cannot) notes.push(say(cannot));
    if (right && !isRight) notes.push(...turningPoint(model, right));
    return make("ul", { class: "notes" }, ...notes.map((note) => make("li", {}, note)));
  }

  /* Where the output leaves the right one, and how probable both ways were. */
  function turningPoint(model, right) {
    const { trace } = model.told;
    const turn = right.steps.findIndex((step, k) => !trace.steps[k] || trace.steps[k].id !== step.id);
    if (turn < 0 || !trace.steps[turn]) return [];
    const { id, probabilities } = trace.steps[turn], wanted = right.steps[turn].id;
    const [should, did] = characters(model, [wanted, id]).map(shown);
    return [say("right.turn", { step: turn + 1, right: should, share: share(probabilities[wanted]), token: did, own: share(probabilities[id]) })];
  }

  /* Another output, token by token with its probabilities; what differs from the one above is marked. */
  function otherRow(model, title, other) {
    const { trace } = model.told;
    const row = make("div", { class: "tokens other-row", role: "group", "aria-label": title }, make("span", { class: "quiet row-name" }, title));
    characters(model, other.steps.map((step) => step.id)).forEach((character, k) => {
      const { id, probabilities } = other.steps[k], p = probabilities[id];
      const differs = !trace.steps[k] || trace.steps[k].id !== id;
      row.append(make("span", { class: differs ? "other changed" : "other" }, token(character), probabilityBar(p), make("span", { class: "unseen" }, share(p))));
    });
    return row;
  }

  function freeRow(model) {
    const { free } = model.told;
    if (!free || !(model.forced || hasAttention(model))) return null;
    return otherRow(model, say(model.forced ? "before.forced" : "before.row", { share: share(probability(free)) }), free);
  }

  function rightRow(model) {
    const { right, isRight } = model.told;
    return right && !isRight ? otherRow(model, say("right.row", { share: share(probability(right)) }), right) : null;
  }

  function hasAttention(model) {
    return model.told.trace.encoder.length > 0 || model.told.trace.steps[0].cross.length > 0;
  }

  function candidates(model) {
    const { trace } = model.told, step = trace.steps[state.step - 1];
    if (!step) return make("div", { class: "candidates" });
    const order = range(step.probabilities.length).sort((a, b) => step.probabilities[b] - step.probabilities[a] || a - b);
    const list = order.slice(0, 4);
    if (!list.includes(step.id)) list[3] = step.id;
    const rows = list.map((id) => {
      const special = Object.keys(SPECIALS).find((name) => SPECIALS[name] === id && name !== "eos");
      const text = special ? `<${special}>` : characters(model, [id])[0];
      const p = step.probabilities[id];
      const button = make("button", {
        type: "button", "data-key": `candidate-${id}`, disabled: id === step.id || id < SPECIALS.eos, press: () => force(model, id),
        "aria-label": say("force", { token: shown(text) }), title: say("force", { token: shown(text) }),
      }, token(text));
      return make("li", { class: id === step.id ? "chosen" : null, "--p": p }, button, make("i", { "aria-hidden": "true" }), make("span", {}, share(p)));
    });
    const hint = model.forced
      ? make("p", { class: "note" }, say("forced", { step: model.forced.length }), " ", make("button", { type: "button", class: "link", "data-key": "release", press: () => force(model, null) }, say("forced.release")))
      : make("p", { class: "note" }, say("force.hint"));
    return make("div", { class: "candidates" }, make("h3", {}, say("candidates", { step: state.step })), make("ol", {}, ...rows), hint);
  }

  /* ---------------------------------------------------------------- attention */

  /* The distributions that the choice of kind, layer and head selects: [head][row], and the tokens of both axes. */
  function maps(model) {
    const { trace } = model.told, written = characters(model, trace.steps.map((step) => step.id));
    const encoder = model.continues ? 0 : trace.encoder.length;
    const kinds = { cross: trace.steps[0].cross.length, encoder, decoder: trace.steps[0].own.length };
    const known = Object.keys(kinds).filter((kind) => kinds[kind]);
    if (!known.length) return null;
    const choice = state.choice[model.name] ||= { kind: known[0], layer: Infinity, head: "mean" };
    if (!known.includes(choice.kind)) choice.kind = known[0];
    const layers = kinds[choice.kind];
    const canRoll = layers > 1 && (choice.kind === "encoder" || (choice.kind === "decoder" && !trace.steps[0].own[0][0][0].whole));
    if (choice.layer !== "rollout" || !canRoll) choice.layer = choice.layer === "rollout" ? layers - 1 : Math.min(choice.layer, layers - 1);
    const ofLayer = (layer) => (choice.kind === "encoder"
      ? trace.encoder[layer]
      : range(trace.steps[0][choice.kind === "cross" ? "cross" : "own"][layer].length).map((h) =>
        trace.steps.map((step) => step[choice.kind === "cross" ? "cross" : "own"][layer][h][0])));
    const heads = choice.layer === "rollout"
      ? [rollout(range(layers).map((layer) => ofLayer(layer).map((rows) => rows.map((one) => one.weights)))).map((weights) => ({ weights }))]
      : ofLayer(choice.layer);
    if (choice.head !== "mean" && choice.head >= heads.length) choice.head = "mean";
    const rows = choice.kind === "encoder" ? source : written;
    const columns = choice.kind === "decoder" ? [null, ...written.slice(0, -1)] : source;
    const lasts = choice.kind === "encoder" ? null : [null, ...written.slice(0, -1)];  // what was read last at each step
    return { choice, known, layers, canRoll, heads, rows, columns, lasts };
  }

  function weightAt(found, row, column) {
    const one = (head) => found.heads[head][row].weights[column] ?? 0;
    if (found.choice.head !== "mean") return one(found.choice.head);
    return found.heads.reduce((sum, _, head) => sum + one(head), 0) / found.heads.length;
  }

  const axis = (character) => (character === null ? "⊢" : shown(character));

  /* A query in words: of an encoder its token; of a decoder what it writes, and the token that it has read last. */
  function rowName({ rows, lasts }, row, key = "row.writing") {
    return lasts ? say(key, { token: axis(rows[row]), last: axis(lasts[row]) }) : axis(rows[row]);
  }

  function segments(model, what, options, current) {
    const fieldset = make("fieldset", { class: "segments" }, make("legend", {}, say(what)));
    for (const [value, text] of options) {
      const input = make("input", { type: "radio", name: `${what}-${model.name}`, value, "data-key": `${what}-${value}` });
      input.checked = value === current;
      input.addEventListener("change", () => {
        state.choice[model.name][what] = value;
        drawModel(model);
      });
      fieldset.append(make("label", {}, input, make("span", {}, text)));
    }
    return fieldset;
  }

  function attention(model) {
    const found = maps(model);
    if (!found) return [make("p", { class: "note" }, say("attention.none")), null];
    const { choice, known, layers, canRoll, heads } = found;
    const controls = make("div", { class: "choices" });
    if (known.length > 1) controls.append(segments(model, "kind", known.map((kind) => [kind, say(KINDS[kind])]), choice.kind));
    if (layers > 1) controls.append(segments(model, "layer", [...range(layers).map((layer) => [layer, String(layer)]), ...(canRoll ? [["rollout", say("rollout")]] : [])], choice.layer));
    if (heads.length > 1) controls.append(segments(model, "head", [["mean", say("mean")], ...range(heads.length).map((head) => [head, String(head)])], choice.head));
    if (!controls.children.length) controls.append(make("span", { class: "quiet" }, say("single")));
    return [
      make("div", {}, make("h3", {}, say("attention")), controls),
      make("div", { class: "attention" }, axes(choice.kind), ...(state.asking && choice.kind !== "encoder" ? [question(found)] : []),
        make("div", { class: "scroll" }, heatmap(model, found)), make("p", { class: "readout" }, say(choice.layer === "rollout" ? "rollout.note" : "hint"))),
    ];
  }

  /* The question that a page opens with, before it shows the weights of the present step. */
  function question(found) {
    const show = make("button", { type: "button", class: "link", "data-key": "show", press: () => goTo(state.step) }, say("ask.show"));
    return make("p", { class: "question" }, say("ask", { token: axis(found.rows[state.step - 1] ?? "") }), " ", show);
  }

  const KINDS = { cross: "kind.cross", encoder: "kind.encoder", decoder: "kind.decoder" };
  const ROWS = { cross: "axis.cross.rows", encoder: "axis.encoder.rows", decoder: "axis.decoder.rows" };
  const COLUMNS = { cross: "axis.cross.columns", encoder: "axis.encoder.columns", decoder: "axis.decoder.columns" };

  /* What rows, columns and colours of a map mean. */
  function axes(kind) {
    return make("p", { class: "axes" }, make("span", {}, `↓ ${say(ROWS[kind])}`), make("span", {}, `→ ${say(COLUMNS[kind])}`),
      make("span", { class: "legend" }, `${say("axis.weight")} 0 `, make("i", { "aria-hidden": "true" }), " 1"));
  }

  /* The cell that is open, in every map that has it. */
  function spot(found) {
    const { cell } = state;
    return cell && cell.kind === found.choice.kind && cell.row < found.rows.length && cell.column < found.columns.length ? cell : null;
  }

  /* Point at one cell: every map of this kind tells its weight there. */
  function point(kind, key) {
    for (const panel of panels.values()) {
      const table = panel.querySelector(`.map[data-kind="${kind}"]`), td = table && key && table.querySelector(`[data-key="${key}"]`);
      if (table) panel.querySelector(".readout").textContent = td ? td.getAttribute("aria-label") : say("hint");
    }
  }

  /* A row for each query, a column for each key. Rows of steps that are still ahead are empty. */
  function heatmap(model, found) {
    const { rows, columns, choice } = found, ahead = choice.kind === "encoder" ? rows.length : state.step - state.asking;
    const here = spot(found), stop = here || { row: 0, column: 0 };
    const heading = (row) => (choice.kind === "decoder" ? `${axis(rows[row])} (${axis(found.lasts[row])})` : axis(rows[row]));
    const longest = Math.max(...rows.map((_, row) => heading(row).length));
    const upended = columns.some((character) => [...axis(character)].length > 2);
    const table = make("table", {
      class: upended ? "map upended" : "map", role: "grid", "data-kind": choice.kind, "aria-label": say("map", { model: model.name }), "--n": columns.length,
      "--head": `${longest * 8 + 22}px`, "--field": "0px", "--least": "11px",
    });
    table.append(make("colgroup", {}, make("col", { class: "head" }), ...columns.map(() => make("col"))));
    const top = make("tr", {}, make("td", { class: "corner" }));
    columns.forEach((character, column) => {
      const blocked = choice.kind !== "decoder" && state.blocked.has(column);
      top.append(make("th", { scope: "col", class: `${blocked ? "blocked" : ""} ${here && here.column === column ? "here" : ""}` }, make("span", {}, axis(character))));
    });
    const body = make("tbody");
    rows.forEach((character, row) => {
      const now = choice.kind !== "encoder" && row + 1 === state.step;
      const tr = make("tr", { class: now ? "now" : null }, make("th", { scope: "row", class: here && here.row === row ? "here" : null }, heading(row)));
      columns.forEach((read, column) => {
        const weight = row < ahead ? weightAt(found, row, column) : 0;
        const spotted = here && here.row === row && here.column === column;
        tr.append(make("td", {
          "data-row": row, "data-column": column, "data-key": `cell-${row}-${column}`, "--w": +(100 * weight).toFixed(2),
          tabindex: stop.row === row && stop.column === column ? 0 : -1, class: `${row < ahead ? "" : "ahead"} ${spotted ? "spot" : ""}`,
          "aria-label": say("cell", { row: rowName(found, row), column: axis(read), weight: row < ahead ? weight.toFixed(3) : "?" }),
          press: () => open(model, row, column),
        }));
      });
      body.append(tr);
    });
    table.addEventListener("pointerover", (event) => {
      const td = event.target.closest("td[data-row]");
      if (td) point(choice.kind, td.dataset.key);
    });
    table.addEventListener("pointerleave", () => point(choice.kind, null));
    table.append(make("thead", {}, top), body);
    return table;
  }

  function open(model, row, column) {
    const { choice } = maps(model);
    state.cell = { kind: choice.kind, row, column };
    goTo(choice.kind !== "encoder" && row + 1 > state.step ? row + 1 : state.step);
    focusCell(model, row, column);
    tell(() => cellOf(model));
  }

  function focusCell(model, row, column) {
    const cell = panels.get(model.name).querySelector(`[data-key="cell-${row}-${column}"]`);
    for (const other of panels.get(model.name).querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus({ preventScroll: state.cell !== null });
  }

  function moveInMap(model, event) {
    if (event.key === "Escape") return close(model);
    const td = event.target.closest("td[data-row]");
    if (!td) return;
    const { rows, columns, choice } = maps(model);
    let row = +td.dataset.row, column = +td.dataset.column;
    if (event.key === "ArrowUp") row--;
    else if (event.key === "ArrowDown") row++;
    else if (event.key === "ArrowLeft") column--;
    else if (event.key === "ArrowRight") column++;
    else if (event.key === "Home") column = 0;
    else if (event.key === "End") column = columns.length - 1;
    else if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    row = Math.max(0, Math.min(rows.length - 1, row));
    column = Math.max(0, Math.min(columns.length - 1, column));
    if (state.cell || event.key === "Enter" || event.key === " ") return open(model, row, column);
    focusCell(model, row, column);
    point(choice.kind, `cell-${row}-${column}`);
  }

  function close(model) {
    if (!state.cell) return;
    const { row, column } = state.cell;
    state.cell = null;
    drawSteps();
    focusCell(model, row, column);
  }

  /* ---------------------------------------------------------------- inside one cell */

  const FORMULAS = {
    dot: () => "q · k",
    scaled_dot: (width) => `q · k / √${width}`,
    general: () => "q W k",
    additive: () => "v · tanh(W₁ k + W₂ q)",
    concat: () => "v · tanh(W [q; k])",
    location: () => "(W q)ⱼ",
  };

  function scoreName(model, kind) {
    const { config } = model;
    if (config.stack) return config.stack.score;
    return (kind === "encoder" ? config.encoder : config.decoder).score;
  }

  function inside(model) {
    const found = maps(model), here = found && spot(found);
    if (!here) return null;
    const { choice, heads, columns } = found, { row, column } = here;
    if (choice.layer === "rollout") return null;  // a product of layers has no single query
    if (choice.kind !== "encoder" && row >= state.step) return null;
    const strongest = best(heads.map((head) => head[row].weights[column] ?? 0));
    const head = choice.head === "mean" ? strongest : choice.head;
    const part = heads[head][row], whole = part.whole || part, key = column + (part.offset || 0);
    const names = keyNames(model, found, part), name = { row: rowName(found, row), column: axis(columns[column]) };
    const title = say("inside", { ...name, layer: choice.layer, head });
    const box = make("section", { class: "inside", "aria-label": `${model.name}: ${title}` }), heading = make("h3", {}, title);
    if (choice.head === "mean" && heads.length > 1) heading.append(" ", make("small", {}, say("inside.strongest")));
    box.append(make("div", { class: "inside-head" }, heading, make("button", { type: "button", "aria-label": say("inside.close"), "data-key": "close", press: () => close(model) }, "×")));
    if (key >= whole.keys.length || !whole.allowed[key]) {
      box.append(make("p", { class: "note" }, say("inside.blocked")));
      return box;
    }
    const score = scoreName(model, choice.kind), pairs = score === "dot" || score === "scaled_dot";
    const { query, output } = whole, k = whole.keys[key], value = whole.values[key], weight = whole.weights[key];
    const multiplied = pairs ? query.map((one, n) => one * k[n]) : null;
    const weighted = scale(value, weight);
    const sum = whole.scores[key] + (whole.biases ? whole.biases[key] : 0);
    box.append(
      numbered(1, say("inside.score"), vector(found.lasts ? rowName(found, row, "inside.query.writing") : say("inside.query", name), query), vector(say("inside.key", name), k), multiplied && vector(say("inside.product"), multiplied),
        make("p", { class: "sum" }, FORMULAS[score](query.length), pairs && score === "scaled_dot" ? ` = ${number(dot(query, k))} / ${number(Math.sqrt(query.length))}` : "", " = ", make("b", {}, number(whole.scores[key])),
          whole.biases ? `; + ${say("inside.bias")} ${number(whole.biases[key])} = ${number(sum)}` : "")),
      numbered(2, say("inside.softmax", { count: whole.allowed.filter(Boolean).length }), softmaxTable(whole, names, key),
        make("p", { class: "sum" }, `exp(${number(sum)}) / Σ exp = ${size(Math.exp(sum))} / ${size(expSum(whole))} = `, make("b", {}, number(weight)))),
      numbered(3, say("inside.sum"), vector(say("inside.value", name), value), vector(`${say("inside.part")} (${number(weight)})`, weighted, value), vector(say("inside.output"), output),
        make("p", { class: "sum" }, `Σ ${say("inside.part")} = [${[...output.slice(0, 4)].map((one) => number(one)).join(", ")}${output.length > 4 ? ", …" : ""}]`)),
      allNumbers(query, k, multiplied, value, weighted, output),
    );
    return box;
  }

  /* ---------------------------------------------------------------- what else can be seen of a model */

  /* Parts that are computed when they are opened: the way of a token, states over time, the beam. */
  function more(model) {
    const step = model.told.trace.steps[state.step - 1];
    const part = (key, draw) => {
      const name = `${key}-${model.name}`;
      const details = make("details", { class: "all", open: state.open.has(name) || null }, make("summary", { "data-key": key }, say(key)));
      if (state.open.has(name)) details.append(...draw());
      details.addEventListener("toggle", () => {
        if (details.open === state.open.has(name)) return;
        if (details.open) state.open.add(name); else state.open.delete(name);
        drawModel(model);
      });
      return details;
    };
    return make("div", { class: "more" }, ...(step ? [part("way", () => wayOf(model, step))] : []), part("states", () => statesOf(model)), ...(model.continues ? [] : [part("beam", () => beamOf(model))]));
  }

  const WAY = {
    embedding: "way.embedding", query: "way.query", key: "way.key", value: "way.value", self: "way.self", cross: "way.cross",
    forward: "way.forward", hidden: "way.hidden", context: "way.context", read: "way.read",
  };

  /* The vectors that the token read last becomes, from its embedding to the logits. */
  function wayOf(model, step) {
    const read = state.step === 1 ? "⊢" : shown(characters(model, [model.told.trace.steps[state.step - 2].id])[0]);
    const rows = step.way.flatMap(([part, values, layer]) => {
      const row = vector(say(WAY[part], { token: read, layer: layer ?? 0 }), values);
      return part === "self" ? [...projected(step.own[layer], layer), row] : [row];
    });
    return [make("p", { class: "note" }, say("way.note", { token: read })), ...rows, vector(say("way.logits"), step.logits)];
  }

  /* Query, key and value of a token in a layer of self-attention, the heads one after the other. */
  function projected(heads, layer) {
    const whole = heads.map(([one]) => one.whole || one), last = (rows) => rows[rows.length - 1];
    const parts = { query: whole.map((one) => one.query), key: whole.map((one) => last(one.keys)), value: whole.map((one) => last(one.values)) };
    return Object.entries(parts).map(([part, vectors]) => vector(say(WAY[part], { layer }), joined(...vectors)));
  }

  /* A row for each token and a column for each component, of what is read at each place. */
  function statesOf(model) {
    const { trace } = model.told, isRecurrent = trace.steps[0].way.some(([part]) => part === "hidden");
    const part = isRecurrent ? "hidden" : "read";
    const vectors = trace.steps.map((step) => step.way.find(([name]) => name === part)[1]);
    const written = characters(model, trace.steps.map((step) => step.id));
    const pictures = [];
    if (trace.states.length) pictures.push(...timeMap(model, say("states.encoder"), trace.states, source.map(axis)));
    pictures.push(...timeMap(model, say(isRecurrent ? "states.decoder" : "states.read"), vectors, written.map(axis)));
    return pictures;
  }

  function timeMap(model, title, vectors, names) {
    const most = vectors.reduce((size, one) => one.reduce((larger, value) => Math.max(larger, Math.abs(value)), size), 1e-9);
    const width = vectors[0].length, height = 18, colours = getComputedStyle(panels.get(model.name));
    const canvas = make("canvas", { width, height: vectors.length, role: "img", "aria-label": title, style: null }), pencil = canvas.getContext("2d");
    canvas.style.height = `${vectors.length * height}px`;
    vectors.forEach((one, y) => one.forEach((value, x) => {
      pencil.fillStyle = colours.getPropertyValue(value > 0 ? "--c" : "--quiet").trim();
      pencil.globalAlpha = Math.abs(value) / most;
      pencil.fillRect(x, y, 1, 1);
    }));
    const labels = make("div", { class: "time-names mono" }, ...names.map((name) => make("span", {}, name)));
    return [
      make("h4", {}, title),
      make("p", { class: "axes" }, make("span", {}, `↓ ${say("axis.time.rows")}`), make("span", {}, `→ ${say("axis.time.columns", { count: width })}`),
        make("span", { class: "legend both" }, `−${number(most, 2)} `, make("i", { "aria-hidden": "true" }), ` ${number(most, 2)}`)),
      make("div", { class: "time" }, labels, canvas),
    ];
  }

  const BEAM = 3;

  /* What a beam search of three keeps at every step, as a tree; the best output's way through it is thick. */
  function beamOf(model) {
    const { told } = model;
    told.beam ||= beamSearch(model.network, ids(model, byId("text").value), { limit: told.limit, width: BEAM, blocked: state.blocked, forced: model.continues ? [] : told.begun });
    const { levels, total } = told.beam, across = 74, down = 40;
    const rows = Math.max(...levels.map((level) => level.length));
    const svg = drawing("svg", { class: "tree", width: across * (levels.length + 1), height: down * rows + 8, role: "img", "aria-label": say("beam.label", { output: model.target.decode(told.beam.ids), share: share(Math.exp(total)) }) });
    const x = (level) => across * (level + 1), y = (place) => down * place + 18;
    const way = new Set(), end = levels.findLastIndex((level) => level.some((one) => one.total === total));
    for (let level = end, place = levels[end].findIndex((one) => one.total === total); level >= 0; level--) {
      way.add(`${level}-${place}`);
      place = levels[level][place].parent;
    }
    levels.forEach((level, k) => level.forEach(({ parent }, place) => {
      const from = k ? [x(k - 1) + 34, y(parent)] : [18, y(0)];
      svg.append(drawing("line", { x1: from[0], y1: from[1] - 5, x2: x(k) - 6, y2: y(place) - 5, class: way.has(`${k}-${place}`) ? "best" : "" }));
    }));
    const label = (where, text, kind) => { const one = drawing("text", { x: where[0], y: where[1], class: kind }); one.textContent = text; svg.append(one); };
    label([4, y(0)], "⊢", "best");
    levels.forEach((level, k) => level.forEach(({ id, total: sum }, place) => {
      const kind = way.has(`${k}-${place}`) ? "best" : "";
      label([x(k), y(place)], axis(characters(model, [id])[0]), kind);
      label([x(k), y(place) + 14], share(Math.exp(sum)), `odds-text ${kind}`);
    }));
    const found = model.target.decode(told.beam.ids), greedy = told.output;
    const notes = [make("p", { class: "note" }, say("beam.note", { width: BEAM })), make("p", {}, say("beam.found", { output: found, share: share(Math.exp(total)) }), " ", say(found === greedy ? "beam.same" : "beam.other", { output: greedy, share: share(probability(told.trace)) }))];
    return [...notes, make("div", { class: "scroll", tabindex: 0, role: "group", "data-key": "tree", "aria-label": say("beam") }, svg)];
  }

  function numbered(place, title, ...children) {
    return make("div", { class: "part" }, make("h4", {}, make("span", { class: "count" }, String(place)), title), ...children.filter(Boolean));
  }

  /* Tokens of all keys that a distribution is over. */
  function keyNames(model, found, part) {
    if (!part.whole) return found.columns.map(axis);
    return [...(model.continues ? [] : source), null, ...characters(model, model.told.trace.steps.map((step) => step.id))].map(axis);
  }

  /* A vector as bars around zero; where another is given, on that one's scale. */
  function vector(title, values, scaledBy = values) {
    const most = Math.max(1e-9, ...[...scaledBy].map(Math.abs)), height = 34, middle = height / 2;
    const svg = drawing("svg", { viewBox: `0 0 ${values.length} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "bars" });
    svg.append(drawing("line", { x1: 0, x2: values.length, y1: middle, y2: middle }));
    values.forEach((value, n) => {
      const size = (Math.abs(value) / most) * (middle - 1);
      const bar = drawing("rect", { x: n + 0.08, width: 0.84, y: value > 0 ? middle - size : middle, height: size, class: value > 0 ? "plus" : "minus" });
      bar.append(drawing("title", {}, `${n + 1}: ${number(value)}`));
      svg.append(bar);
    });
    return make("div", { class: "vector" }, make("span", {}, title), svg, make("small", {}, say("inside.width", { count: values.length, most: number(most, most < 0.1 ? 3 : 2) })));
  }

  /* A number with three digits, whatever its size. */
  function size(value) { return value >= 0.001 && value < 100000 ? String(+value.toPrecision(3)) : value.toExponential(2); }

  function biased(whole, j) { return whole.scores[j] + (whole.biases ? whole.biases[j] : 0); }

  function expSum(whole) {
    return range(whole.weights.length).reduce((sum, j) => sum + (whole.allowed[j] ? Math.exp(biased(whole, j)) : 0), 0);
  }

  function softmaxTable(whole, names, chosen) {
    const table = make("table", { class: "softmax" }, make("thead", {}, make("tr", {}, ...["inside.column.token", "inside.column.score", "inside.column.exp", "inside.column.weight"].map((what) => make("th", { scope: "col" }, say(what))))));
    const body = make("tbody");
    whole.weights.forEach((weight, j) => {
      const score = biased(whole, j);
      body.append(make("tr", { class: j === chosen ? "here" : null }, make("th", { scope: "row", class: "mono" }, names[j] ?? ""), make("td", {}, whole.allowed[j] ? number(score) : "−∞"), make("td", {}, whole.allowed[j] ? size(Math.exp(score)) : "0"),
        make("td", { "--p": weight }, make("i", { "aria-hidden": "true" }), make("span", {}, number(weight)))));
    });
    const foot = make("tfoot", {}, make("tr", {}, make("th", { scope: "row" }, "Σ"), make("td", {}, ""), make("td", {}, size(expSum(whole))), make("td", {}, "1")));
    table.append(body, foot);
    return make("div", { class: "scroll", tabindex: 0, role: "group", "data-key": "softmax", "aria-label": say("inside.softmax", { count: whole.weights.length }) }, table);
  }

  function allNumbers(query, key, multiplied, value, weighted, output) {
    const columns = [["inside.column.query", query], ["inside.column.token", key], ["inside.product", multiplied], ["inside.column.value", value], ["inside.part", weighted], ["inside.column.output", output]].filter(([, values]) => values);
    const head = make("tr", {}, make("th", { scope: "col" }, say("inside.place")), ...columns.map(([title]) => make("th", { scope: "col" }, say(title))));
    const rows = range(Math.max(...columns.map(([, values]) => values.length))).map((n) =>
      make("tr", {}, make("th", { scope: "row" }, String(n + 1)), ...columns.map(([, values]) => make("td", {}, n < values.length ? number(values[n]) : ""))));
    const details = make("details", { class: "all", open: state.numbers || null }, make("summary", { "data-key": "numbers" }, say("inside.numbers")),
      make("div", { class: "scroll", tabindex: 0, role: "group", "data-key": "all", "aria-label": say("inside.numbers") }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
    details.addEventListener("toggle", () => { state.numbers = details.open; });
    return details;
  }

  /* ---------------------------------------------------------------- what the reader does */

  function setLanguage(lang) {
    root.lang = lang;
    for (const element of document.querySelectorAll("[data-w]")) element.textContent = say(element.dataset.w, element.dataset);
    for (const element of document.querySelectorAll("[data-label]")) {
      for (const name of ["aria-label", "title"]) element.setAttribute(name, say(element.dataset.label));
    }
    drawAll();
  }

  function pause() {
    clearInterval(state.playing);
    state.playing = null;
    byId("play").textContent = "▶";
    byId("play").dataset.label = "step.play";
    for (const name of ["aria-label", "title"]) byId("play").setAttribute(name, say("step.play"));
  }

  function play() {
    if (state.playing) return pause();
    goTo(state.step === steps() ? 1 : state.step);
    state.playing = setInterval(() => {
      goTo(state.step + 1);
      if (state.step === steps()) pause();
    }, calm);
    byId("play").textContent = "■";
    byId("play").dataset.label = "step.stop";
    for (const name of ["aria-label", "title"]) byId("play").setAttribute(name, say("step.stop"));
  }

  /* Another input: nothing of the old one is blocked, and all of the output is there. */
  function begin() {
    pause();
    state.asking = false;
    state.blocked.clear();
    for (const model of models) model.forced = null;
    state.step = Infinity;
    state.reading = 0;
    state.cell = null;
    askAll();
  }

  /* An example opens at the first digit that is written, or the first token, with a question. */
  function beginExample([text, right]) {
    byId("text").value = text;
    byId("right").value = right;
    byId("prefix").value = "";
    begin();
    const asked = working.find((model) => model.told && !model.continues && model.told.trace.steps[0].cross.length);
    if (!asked) return;
    const written = characters(asked, asked.told.trace.steps.map((step) => step.id));
    state.step = Math.max(0, written.findIndex((character) => /^\d$/.test(character))) + 1;
    state.asking = true;
    drawSteps();
  }

  byId("text").addEventListener("input", () => { byId("right").value = ""; begin(); });
  byId("right").addEventListener("input", askAll);
  byId("prefix").addEventListener("input", () => {
    for (const model of models) model.forced = null;
    askAll();
  });
  byId("temperature").addEventListener("input", (event) => { state.temperature = +event.target.value; askAll(); });
  byId("again").addEventListener("click", () => { state.seed++; state.step = Infinity; askAll(); });
  byId("clear").addEventListener("click", () => {
    state.blocked.clear();
    askAll();
    byId("source").querySelector(".read").focus();
  });
  for (const input of document.querySelectorAll("input[name=choose]")) {
    input.addEventListener("change", () => { state.draw = input.value === "draw"; state.step = Infinity; askAll(); });
  }
  byId("step").addEventListener("input", (event) => { pause(); goTo(+event.target.value); });
  byId("first").addEventListener("click", () => { pause(); goTo(1); });
  byId("back").addEventListener("click", () => { pause(); goTo(state.step - 1); });
  byId("forward").addEventListener("click", () => { pause(); goTo(state.step + 1); });
  byId("last").addEventListener("click", () => { pause(); goTo(Infinity); });
  byId("play").addEventListener("click", play);

  for (const example of page.examples) {
    byId("examples").append(make("button", { type: "button", press: () => beginExample(example) }, make("bdi", {}, example[0])));
  }

  if (models.length > 2) {
    byId("shown").hidden = false;
    for (const [place, model] of models.entries()) {
      if (place >= 4) state.hidden.add(model.name);
      const input = make("input", { type: "checkbox", value: model.name });
      input.checked = place < 4;
      input.addEventListener("change", () => {
        if (input.checked) state.hidden.delete(model.name); else state.hidden.add(model.name);
        askAll();
      });
      byId("shown").append(make("label", { class: `option m${model.colour}` }, input, sign(model), model.name));
    }
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  function showTheme() {
    const theme = root.dataset.theme || (dark.matches ? "dark" : "light");
    document.querySelector(`input[name=theme][value=${theme}]`).checked = true;
  }
  for (const input of document.querySelectorAll("input[name=theme]")) {
    input.addEventListener("change", () => { root.dataset.theme = input.value; drawSteps(); });
  }
  dark.addEventListener("change", () => { showTheme(); drawSteps(); });
  showTheme();
  for (const input of document.querySelectorAll("input[name=lang]")) {
    input.checked = input.value === root.lang;
    input.addEventListener("change", () => setLanguage(input.value));
  }

  if (page.examples.length) beginExample(page.examples[0]); else begin();
  document.querySelector(`input[name=lang][value="${CSS.escape(location.hash.slice(1))}"]`)?.click();  // demo.html#ko
})();
