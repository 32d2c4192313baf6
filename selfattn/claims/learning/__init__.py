"""Claims on what trains and what does not: depth, distance, averaging, the future mask, exposure."""
