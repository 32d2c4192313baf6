/* Answers { ids, logits, encoder, decoder, cross } for each source of a case; maps are [layer][head][row][column]. */
function answer({ config, weights, sources, limit, blocked, given }) {
  const model = buildModel(config, new Weights(weights));
  const stacked = (steps, kind) => steps[0][kind].map((heads, layer) =>
    heads.map((_, h) => steps.map((step) => [...step[kind][layer][h][0].weights])));
  return sources.map((source, k) => {
    const told = write(model, source, { limit, blocked: new Set(blocked), given: given && given[k] });
    return {
      ids: told.ids,
      logits: told.steps.map((step) => [...step.logits]),
      encoder: told.encoder.map((heads) => heads.map((rows) => rows.map((one) => [...one.weights]))),
      decoder: stacked(told.steps, "own"),
      cross: stacked(told.steps, "cross"),
    };
  });
}

/* The vectors on a token's way through each step of a case, as [part, vector, layer]. */
function ways({ config, weights, sources, limit, given }) {
  const model = buildModel(config, new Weights(weights));
  return sources.map((source, k) => write(model, source, { limit, given: given && given[k] }).steps.map(
    (step) => step.way.map(([part, vector, layer]) => [part, [...vector], layer ?? null])));
}

/* The best output of a beam, with its logarithmic probability, and how many beginnings there were at every step. */
function searched({ config, weights, sources, limit, width }) {
  const model = buildModel(config, new Weights(weights));
  return sources.map((source) => {
    const { ids, total, finished, levels } = beamSearch(model, source, { limit, width });
    return { ids, total, finished, counts: levels.map((level) => level.length) };
  });
}

/* What a model writes after forced ids. */
function forced({ config, weights, sources, limit, ids }) {
  const model = buildModel(config, new Weights(weights));
  return sources.map((source) => write(model, source, { limit, forced: ids }).steps.map((step) => step.id));
}
