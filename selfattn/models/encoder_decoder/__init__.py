"""The encoder-decoder family: an RNN or a Transformer that reads, an RNN or a Transformer that writes."""
