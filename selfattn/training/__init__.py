"""How a model is trained: settings, loss, optimizer, schedule, the loop, and the directory a run is kept in."""
