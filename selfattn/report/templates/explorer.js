(function explorer() {
  const data = page.explorer;
  if (!data.examples.length) return;
  document.getElementById("still").remove();
  const byId = (id) => document.getElementById(id);
  const MOST = 4;
  const SYMBOLS = Array.from({ length: 94 }, (_, k) => String.fromCharCode(33 + k)).filter((one) => !'"\\<>'.includes(one)).join("");
  const SINGLES = SYMBOLS.length - 12;
  const state = { hidden: new Set(data.models.slice(MOST).map((model) => model.name)), example: 0, view: "map", gold: true, row: null, column: null, choice: {} };
  const panels = [];

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function drawing(tag, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  /* weights as they were packed: thousandths, most in one character, row after row */
  function unpack(text, columns) {
    const rows = [];
    for (let k = 0, count = 0; k < text.length; k++, count++) {
      let value = SYMBOLS.indexOf(text[k]);
      if (value >= SINGLES) value = SINGLES + (value - SINGLES) * SYMBOLS.length + SYMBOLS.indexOf(text[++k]);
      if (count % columns === 0) rows.push([]);
      rows[rows.length - 1].push(value / 1000);
    }
    return rows;
  }

  /* the weights that the choice of kind, layer and head selects, with the tokens of both axes */
  function selected(one, choice) {
    const maps = one.maps.filter((map) => map.kind === choice.kind && map.layer === choice.layer);
    const chosen = choice.head === "mean" ? maps : maps.filter((map) => map.head === choice.head);
    const width = (choice.kind === "decoder" ? one.target : one.source).tokens.length;
    const unpacked = chosen.map((map) => unpack(map.weights, width));
    let weights = unpacked[0].map((row, k) => row.map((_, j) => unpacked.reduce((sum, map) => sum + map[k][j], 0) / unpacked.length));
    const shifted = { tokens: ["⊢", ...one.target.tokens.slice(0, -1)], order: one.target.tokens.map((_, k) => k), width: one.target.width };
    let rows = choice.kind === "encoder" ? one.source : one.target;
    let columns = choice.kind !== "decoder" ? one.source : data.isShifted ? shifted : one.target;
    const gold = columns === one.source && rows === one.target ? one.gold : [];
    const parts = hasParts(choice) && choice.part !== "all" ? choice.part.split("→").map((part) => sentence(one.source, part)) : null;
    if (parts) {
      weights = weights.slice(parts[0].from, parts[0].to).map((row) => row.slice(parts[1].from, parts[1].to));
      [rows, columns] = parts.map((part) => part.axis);
    }
    const cut = hasParts(choice) && !parts ? data.second : null;
    // what was read last at each step of a decoder: its query is that token's
    const lasts = data.isShifted && ["cross", "decoder"].includes(choice.kind) ? shifted.tokens : null;
    return { weights, rows, columns, gold, cut, lasts, kind: choice.kind, verb: ["blocking", "gradient"].includes(choice.kind) ? "x.depends" : "x.reads" };
  }

  /* two sentences that a model reads as one sequence */
  function hasParts(choice) { return data.second !== null && choice.kind === "encoder"; }

  function sentence(axis, part) {
    const from = part === "1" ? 0 : data.second;
    const to = part === "1" ? data.second : axis.tokens.length;
    const order = axis.order.filter((k) => from <= k && k < to).map((k) => k - from);
    return { from, to, axis: { tokens: axis.tokens.slice(from, to), order, width: axis.width, from } };
  }

  function unique(values) { return [...new Set(values)].sort((a, b) => a - b); }

  /* keep a model's choice as far as this example has such a map */
  function settle(name, one) {
    const choice = state.choice[name] || (state.choice[name] = { kind: "cross", layer: null, head: "mean", part: "all" });
    const kinds = ["cross", "blocking", "gradient", "encoder", "decoder"].filter((kind) => one.maps.some((map) => map.kind === kind));
    if (!kinds.includes(choice.kind)) choice.kind = kinds[0];
    const layers = unique(one.maps.filter((map) => map.kind === choice.kind).map((map) => map.layer));
    if (!layers.includes(choice.layer)) choice.layer = layers[layers.length - 1];
    const heads = unique(one.maps.filter((map) => map.kind === choice.kind && map.layer === choice.layer).map((map) => map.head));
    if (choice.head !== "mean" && !heads.includes(choice.head)) choice.head = "mean";
    return { choice, kinds, layers, heads };
  }

  const LEGENDS = { kind: "x.kind", part: "x.part", layer: "x.layer", head: "x.head" };
  const KINDS = { cross: "x.kind.cross", encoder: "x.kind.encoder", decoder: "x.kind.decoder", blocking: "x.kind.blocking", gradient: "x.kind.gradient" };
  const ROWS = { cross: "x.axis.cross.rows", encoder: "x.axis.encoder.rows", decoder: "x.axis.decoder.rows", blocking: "x.axis.blocking.rows", gradient: "x.axis.gradient.rows" };
  const COLUMNS = { cross: "x.axis.cross.columns", encoder: "x.axis.encoder.columns", decoder: "x.axis.decoder.columns", blocking: "x.axis.blocking.columns", gradient: "x.axis.gradient.columns" };
  const FIELDS = {
    year: "x.field.year", month: "x.field.month", day: "x.field.day", weekday: "x.field.weekday", week: "x.field.week",
    hour: "x.field.hour", minute: "x.field.minute", second: "x.field.second", period: "x.field.period",
    number: "x.field.number", unit: "x.field.unit", currency: "x.field.currency", language: "x.field.language",
  };

  function segments(name, what, options, current, pick) {
    const fieldset = make("fieldset", { class: "segments" }, make("legend", {}, say(LEGENDS[what])));
    for (const [value, text] of options) {
      const input = make("input", { type: "radio", name: `${what}-${name}`, value });
      input.checked = value === current;
      input.addEventListener("change", () => { pick(value); });
      fieldset.append(make("label", {}, input, make("span", {}, text)));
    }
    return fieldset;
  }

  function choices(name, one, redraw) {
    const { choice, kinds, layers, heads } = settle(name, one);
    const box = make("div", { class: "choices" });
    const pick = (what) => (value) => { choice[what] = value; state.row = state.column = null; redraw(what); };
    if (kinds.length > 1) box.append(segments(name, "kind", kinds.map((kind) => [kind, say(KINDS[kind])]), choice.kind, pick("kind")));
    if (hasParts(choice) && state.view !== "all") box.append(segments(name, "part", [["all", say("x.part.all")], ...["1→1", "1→2", "2→1", "2→2"].map((part) => [part, part])], choice.part, pick("part")));
    if (state.view === "all") return box;
    if (layers.length > 1) box.append(segments(name, "layer", layers.map((layer) => [layer, String(layer)]), choice.layer, pick("layer")));
    if (heads.length > 1) box.append(segments(name, "head", [["mean", say("x.mean")], ...heads.map((head) => [head, String(head)])], choice.head, pick("head")));
    if (!box.children.length) box.append(make("span", { class: "quiet" }, say("x.single")));
    return box;
  }

  /* A row in words: what is written, and for a decoder the token that it has read last. */
  function rowName({ rows, lasts }, row) {
    return lasts ? say("x.writing", { token: rows.tokens[row], last: lasts[row] }) : rows.tokens[row];
  }

  /* What rows, columns and colours of a map mean. */
  function axes({ kind }) {
    return make("p", { class: "axes" }, make("span", {}, `↓ ${say(ROWS[kind])}`), make("span", {}, `→ ${say(COLUMNS[kind])}`),
      make("span", { class: "legend" }, `${say("x.axis.weight")} 0 `, make("i", { "aria-hidden": "true" }), " 1"));
  }

  const FORMATS = {
    date: "x.format.date", time: "x.format.time", "date and time": "x.format.both", span: "x.format.span",
    unit: "x.format.unit", price: "x.format.price", list: "x.format.list",
  };

  function formatName(format) { return Object.hasOwn(FORMATS, format) ? say(FORMATS[format]) : format; }

  function fieldName(field) { return Object.hasOwn(FIELDS, field) ? say(FIELDS[field]) : field; }

  /* heatmap: a grid of cells; the arrow keys move, hover and touch point */
  function heatmap(panel) {
    const { name, shown } = panel;
    const { weights, rows, columns } = shown;
    const gold = shown.gold || [];
    const upended = columns.width > 2;
    const cut = shown.cut;
    const head = rows.width * 8 + 14;
    const field = gold.length ? 8 + 8 * Math.max(...gold.map((span) => [...fieldName(span.field)].reduce((sum, one) => sum + (one > "\u1100" ? 1.6 : 1), 0))) : 0;
    const least = upended ? 17 : columns.width === 2 ? 16 : 10;
    const table = make("table", {
      class: upended ? "map upended" : "map", role: "grid", "aria-label": say("x.map.label", { model: name }),
      style: `--n:${columns.order.length};--head:${head}px;--field:${field}px;--least:${least}px`,
    });
    const group = make("colgroup");
    if (field) group.append(make("col", { class: "field" }));
    group.append(make("col", { class: "head" }), ...columns.order.map(() => make("col")));
    const top = make("tr");
    if (field) top.append(make("td", { class: "corner" }));
    top.append(make("td", { class: "corner" }));
    panel.columnHeads = [];
    for (const column of columns.order) {
      const th = make("th", { scope: "col" }, make("span", {}, columns.tokens[column]));
      panel.columnHeads[column] = th;
      top.append(th);
    }
    const body = make("tbody");
    panel.rowHeads = [];
    panel.cells = [];
    weights.forEach((line, row) => {
      const tr = make("tr", row === cut ? { class: "cut" } : {});
      if (field) {
        const begins = gold.find((span) => span.rows[0] === row);
        tr.append(begins ? make("th", { class: "field" }, fieldName(begins.field)) : make("td", { class: "corner" }));
      }
      const th = make("th", { scope: "row" }, rows.tokens[row]);
      panel.rowHeads.push(th);
      tr.append(th);
      panel.cells.push([]);
      columns.order.forEach((column, place) => {
        const td = make("td", {
          tabindex: -1, "data-row": row, "data-column": column, style: `--w:${+(100 * line[column]).toFixed(2)}`,
          "aria-label": `${rowName(shown, row)} ${say(shown.verb)} ${columns.tokens[column]}: ${line[column].toFixed(3)}`,
        });
        const span = gold.find((one) => one.rows.includes(row) && one.columns.includes(column));
        if (span) {
          const left = columns.order[place - 1], right = columns.order[place + 1];
          if (!span.rows.includes(row - 1)) td.classList.add("g-t");
          if (!span.rows.includes(row + 1)) td.classList.add("g-b");
          if (!span.columns.includes(left)) td.classList.add("g-l");
          if (!span.columns.includes(right)) td.classList.add("g-r");
        }
        if (column === cut) td.classList.add("cut");
        panel.cells[row][column] = td;
        tr.append(td);
      });
      body.append(tr);
    });
    table.append(group, make("thead", {}, top), body);
    const first = panel.cells[0] && panel.cells[0][columns.order[0]];
    if (first) first.tabIndex = 0;

    const pointAt = (event) => {
      const under = document.elementFromPoint(event.clientX, event.clientY);
      const td = under && under.closest && under.closest("td[data-row]");
      if (td && table.contains(td)) point(panel, +td.dataset.row, +td.dataset.column);
    };
    table.addEventListener("pointerdown", pointAt);
    table.addEventListener("pointermove", pointAt);
    table.addEventListener("focusin", (event) => {
      const td = event.target.closest("td[data-row]");
      if (td) point(panel, +td.dataset.row, +td.dataset.column);
    });
    table.addEventListener("keydown", (event) => {
      const td = event.target.closest("td[data-row]");
      if (!td) return;
      let row = +td.dataset.row, place = columns.order.indexOf(+td.dataset.column);
      const last = columns.order.length - 1;
      if (event.key === "ArrowUp") row = Math.max(0, row - 1);
      else if (event.key === "ArrowDown") row = Math.min(weights.length - 1, row + 1);
      else if (event.key === "ArrowLeft") place = Math.max(0, place - 1);
      else if (event.key === "ArrowRight") place = Math.min(last, place + 1);
      else if (event.key === "Home") place = 0;
      else if (event.key === "End") place = last;
      else return;
      event.preventDefault();
      panel.cells[row][columns.order[place]].focus();
    });
    return table;
  }

  /* all layers and heads at a glance: a small map of each, to be enlarged */
  function overview(panel, one, choice) {
    const maps = one.maps.filter((map) => map.kind === choice.kind);
    const layers = unique(maps.map((map) => map.layer)), heads = unique(maps.map((map) => map.head));
    const width = (choice.kind === "decoder" ? one.target : one.source).tokens.length;
    const order = choice.kind === "decoder" ? one.target.tokens.map((_, k) => k) : one.source.order;
    const heat = getComputedStyle(root).getPropertyValue("--heat").trim();
    panel.columnHeads = [];
    panel.rowHeads = [];
    const table = make("table", { class: "minis", "aria-label": say("x.mini.label", { model: panel.name }) });
    const top = make("tr", {}, make("th", { scope: "col" }, say("x.layer"), " \\ ", say("x.head")), ...heads.map((head) => make("th", { scope: "col" }, String(head))));
    const body = make("tbody");
    for (const layer of layers) {
      const tr = make("tr", {}, make("th", { scope: "row" }, String(layer)));
      for (const head of heads) {
        const map = maps.find((one) => one.layer === layer && one.head === head);
        const td = make("td");
        if (map) {
          const button = make("button", { type: "button", "aria-label": say("x.mini", { layer, head }), "data-layer": layer, "data-head": head });
          button.append(small(unpack(map.weights, width), order, heat));
          button.addEventListener("click", () => enlarge(panel.name, layer, head));
          td.append(button);
        }
        tr.append(td);
      }
      body.append(tr);
    }
    table.append(make("thead", {}, top), body);
    return table;
  }

  /* a pixel for each weight; the root makes faint patterns visible */
  function small(weights, order, heat) {
    const canvas = make("canvas", { width: order.length, height: weights.length, "aria-hidden": "true" });
    const pencil = canvas.getContext("2d");
    pencil.fillStyle = heat;
    weights.forEach((row, y) => order.forEach((column, x) => {
      pencil.globalAlpha = Math.sqrt(row[column]);
      pencil.fillRect(x, y, 1, 1);
    }));
    return canvas;
  }

  function enlarge(name, layer, head) {
    Object.assign(state.choice[name], { layer, head });
    showView("map");
    document.querySelector(`input[name="head-${CSS.escape(name)}"]:checked, input[name="layer-${CSS.escape(name)}"]:checked, input[name=view]:checked`).focus();
  }

  function showView(view) {
    state.view = view;
    state.row = state.column = null;
    document.querySelector(`input[name=view][value=${view}]`).checked = true;
    draw();
  }

  /* line view: what a target character reads, as lines of that strength */
  function weave(panel) {
    const { name, shown } = panel;
    const { weights, rows, columns } = shown;
    const longest = Math.max(columns.order.length, rows.order.length);
    const least = 9 * Math.max(columns.width, rows.width) + 2;
    const box = make("div", { class: "weave", role: "group", "aria-label": say("x.lines.label", { model: name }), style: `--n:${longest};--least:${Math.max(11, least)}px` });
    const top = make("div", { class: "line" }), bottom = make("div", { class: "line" });
    const svg = drawing("svg", { "aria-hidden": "true" });
    panel.columnHeads = [];
    panel.rowHeads = [];
    panel.lines = [];
    const across = (place, count) => `${(100 * (place + 0.5) / count).toFixed(3)}%`;
    columns.order.forEach((column) => {
      const span = make("span", {}, columns.tokens[column]);
      span.addEventListener("pointerenter", () => point(panel, null, column));
      panel.columnHeads[column] = span;
      top.append(span);
    });
    rows.order.forEach((row, place) => {
      const button = make("button", { type: "button" }, rows.tokens[row]);
      button.addEventListener("pointerenter", () => point(panel, row, null));
      button.addEventListener("focus", () => point(panel, row, null));
      button.addEventListener("click", () => point(panel, row, null));
      panel.rowHeads[row] = button;
      bottom.append(button);
      columns.order.forEach((column, above) => {
        const weight = weights[row][column];
        if (weight < 0.03) return;
        const line = drawing("line", {
          x1: across(above, columns.order.length), y1: 0, x2: across(place, rows.order.length), y2: "100%",
          "stroke-width": (0.5 + 2.5 * weight).toFixed(2), "stroke-opacity": Math.min(1, 0.15 + weight).toFixed(2),
        });
        panel.lines.push({ row, column, line });
        svg.append(line);
      });
    });
    box.append(top, svg, bottom);
    return box;
  }

  /* one place is pointed at in all panels that show the same axes */
  function point(from, row, column) {
    state.row = row;
    state.column = column;
    for (const panel of panels) {
      if (panel === from || panel.kind === from.kind) mark(panel);
    }
  }

  function mark(panel) {
    const { row, column } = state;
    const { weights, rows, columns } = panel.shown;
    const inside = (row === null || row < weights.length) && (column === null || column < columns.tokens.length);
    const r = inside ? row : null, c = inside ? column : null;
    panel.rowHeads.forEach((head, k) => head.classList.toggle("here", k === r));
    panel.columnHeads.forEach((head, k) => head.classList.toggle("here", k === c));
    (panel.cells || []).forEach((line, k) => line.forEach((td, j) => {
      td.classList.toggle("here", k === r || j === c);
      td.classList.toggle("spot", k === r && j === c);
      if (k === r && j === c) {
        for (const other of panel.table.querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
        td.tabIndex = 0;
      }
    }));
    for (const one of panel.lines || []) {
      one.line.classList.toggle("dim", (r !== null && one.row !== r) || (r === null && c !== null && one.column !== c));
    }
    panel.readout.replaceChildren(...readout(r, c, panel.shown));
  }

  function readout(row, column, shown) {
    const { weights, rows, columns, verb, lasts } = shown;
    const token = (axis, k) => make("span", {}, make("b", {}, make("bdi", {}, axis.tokens[k])), make("sub", {}, String(k + 1 + (axis.from || 0))));
    const named = row === null ? [] : lasts ? [rowName(shown, row)] : [token(rows, row)];
    if (row !== null && column !== null) {
      return [...named, ` ${say(verb)} `, token(columns, column), `: ${weights[row][column].toFixed(3)}`];
    }
    if (row !== null) {
      const best = weights[row].map((weight, k) => [weight, k]).sort((a, b) => b[0] - a[0]).slice(0, 3);
      const parts = best.flatMap(([weight, k], n) => [n ? ", " : "", token(columns, k), ` ${weight.toFixed(3)}`]);
      return [...named, ` ${say(verb)} `, ...parts];
    }
    return [say({ map: "x.hint", lines: "x.hint.lines", all: "x.hint.all" }[state.view])];
  }

  function drawPanel(model, example) {
    const one = example.models[model.name];
    const section = make("section", { class: "panel", "aria-label": model.name, "data-model": model.name });
    const svg = drawing("svg", { class: `sign m${model.colour}`, viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" });
    svg.append(drawing("path", { d: model.path }));
    const title = make(document.body.classList.contains("alone") ? "h2" : "h3", { class: "model" }, svg, model.name);
    section.append(title);
    if (!one) {
      section.append(make("p", { class: "note" }, say("x.absent")));
      return section;
    }
    const sign = make("span", { class: one.right ? "right" : "wrong" }, `${one.right ? "✓" : "✗"} ${say(one.right ? "x.right" : "x.wrong")}`);
    title.append(make("span", { class: "said" }, make("bdi", { class: "mono" }, one.prediction), " ", one.right === null ? "" : sign));
    const panel = { name: model.name, readout: make("p", { class: "readout" }) };
    const picture = make("div", { class: "scroll" }), meaning = make("div");
    let controls;
    const redraw = (what) => {
      const fresh = choices(model.name, one, redraw);
      if (controls) controls.replaceWith(fresh); else section.append(fresh);
      controls = fresh;
      if (what) controls.querySelector(`input[name="${what}-${CSS.escape(model.name)}"]:checked`).focus();
      const choice = state.choice[model.name];
      panel.kind = choice.kind;
      panel.shown = selected(one, choice);
      panel.cells = panel.lines = null;
      panel.table = state.view === "all" ? overview(panel, one, choice) : state.view === "map" ? heatmap(panel) : weave(panel);
      picture.replaceChildren(panel.table);
      meaning.replaceChildren(...(state.view === "all" ? [] : [axes(panel.shown)]));
      mark(panel);
    };
    panels.push(panel);
    redraw();
    const below = make("div", {}, meaning, panel.readout);
    if (example.hasGold && !one.gold) below.append(make("p", { class: "note" }, say("x.nogold")));
    section.append(picture, below);
    return section;
  }

  function draw() {
    const example = data.examples[state.example];
    panels.length = 0;
    byId("position").textContent = `${state.example + 1}/${data.examples.length}`;
    byId("example").value = state.example;
    byId("source").textContent = example.source;
    byId("target").textContent = example.target;
    byId("arrow").hidden = !example.target; // a model that only reads
    byId("format").textContent = formatName(example.format);
    byId("gold-choice").hidden = !example.hasGold || state.view !== "map";
    byId("panels").replaceChildren(...data.models.filter((model) => !state.hidden.has(model.name)).map((model) => drawPanel(model, example)));
    byId("panels").classList.toggle("gold-on", state.gold);
  }

  function go(to) {
    state.example = (to + data.examples.length) % data.examples.length;
    state.row = state.column = null;
    draw();
  }

  data.examples.forEach((example, k) => {
    byId("example").append(make("option", { value: k }, `${k + 1}. ${example.source}`));
  });
  if (document.body.classList.contains("alone")) for (const id of ["previous", "example", "next", "position"]) byId(id).hidden = true;
  if (data.models.length > MOST) {
    for (const model of data.models) {
      const input = make("input", { type: "checkbox", name: "shown", value: model.name });
      input.checked = !state.hidden.has(model.name);
      input.addEventListener("change", () => { state.hidden[input.checked ? "delete" : "add"](model.name); draw(); });
      byId("shown").append(make("label", { class: "option" }, input, ` ${model.name}`));
    }
    byId("shown").hidden = false;
  }
  byId("example").addEventListener("change", (event) => go(+event.target.value));
  byId("previous").addEventListener("click", () => go(state.example - 1));
  byId("next").addEventListener("click", () => go(state.example + 1));
  byId("gold").addEventListener("change", (event) => {
    state.gold = event.target.checked;
    byId("panels").classList.toggle("gold-on", state.gold);
  });
  for (const input of document.querySelectorAll("input[name=view]")) {
    input.addEventListener("change", () => showView(input.value));
  }
  for (const input of document.querySelectorAll("input[name=theme]")) input.addEventListener("change", drawAgain);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
  function drawAgain() { if (state.view === "all") draw(); } // the small maps have their colour in them
  const hasMany = data.examples.some((example) => Object.values(example.models).some((one) => one.maps.some((map) => one.maps.some((other) => other !== map && other.kind === map.kind))));
  byId("all-choice").hidden = !hasMany;
  document.addEventListener("languagechange", draw);
  draw();
})();
