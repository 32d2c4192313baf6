"""Every test with an argument ``variant`` runs for each model of the zoo and for each model with parts of plugins.

Those with ``state_variant`` run for each kind of state.
"""

import pytest
from third_party import MODELS, Made, plugins, state_variant, variant
from zoo import STATEFUL, VARIANTS, Zoo

from selfattn.models.families import DecoderOnlyConfig

__all__ = ["plugins", "state_variant", "variant"]


def pytest_generate_tests(metafunc):
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", [*VARIANTS, *MODELS], indirect=True)
    if "state_variant" in metafunc.fixturenames:
        metafunc.parametrize("state_variant", [*STATEFUL, *MODELS], indirect=True)
    if "decoder_only_variant" in metafunc.fixturenames:
        names = [name for name, config in VARIANTS.items() if isinstance(config, DecoderOnlyConfig)]
        metafunc.parametrize("decoder_only_variant", names)


@pytest.fixture(scope="session")
def zoo():
    return Zoo(Made(VARIANTS))
