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
