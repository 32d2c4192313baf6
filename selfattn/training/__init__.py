"""How a model is trained: settings, loss, optimizer, schedule, weights, the loop and its checkpoints."""
