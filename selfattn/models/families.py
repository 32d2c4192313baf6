"""The project's own families and their presets come in here, in the order in which they are listed."""

# isort: off
import selfattn.models.encoder_decoder.presets
import selfattn.models.decoder_only.presets  # noqa: F401
