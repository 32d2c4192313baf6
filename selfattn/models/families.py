"""The project's own families and models come in here: each registers itself when it is imported."""

import selfattn.models.decoder_only.config
import selfattn.models.encoder_decoder.config
import selfattn.models.presets  # noqa: F401  # asked of the registry from here on, never by this name
