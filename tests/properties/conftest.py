"""Every test with an argument ``variant`` runs for each model of the zoo and for each model with parts of plugins.

Those with ``state_variant`` run for each kind of state, those with ``some_variant`` too, and slowly for each model.
"""

import pytest
from third_party import MODELS, Made, plugins, some_variant, state_variant, variant
from zoo import STATEFUL, VARIANTS, Zoo

from selfattn.models.families import DecoderOnlyConfig

__all__ = ["plugins", "some_variant", "state_variant", "variant"]


def pytest_generate_tests(metafunc):
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", [*VARIANTS, *MODELS], indirect=True)
    if "state_variant" in metafunc.fixturenames:
        metafunc.parametrize("state_variant", [*STATEFUL, *MODELS], indirect=True)
    if "some_variant" in metafunc.fixturenames:
        others = [pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS if name not in STATEFUL]
        metafunc.parametrize("some_variant", [*STATEFUL, *MODELS, *others], indirect=True)
    if "decoder_only_variant" in metafunc.fixturenames:
        names = [name for name, config in VARIANTS.items() if isinstance(config, DecoderOnlyConfig)]
        metafunc.parametrize("decoder_only_variant", names)


@pytest.fixture(scope="session")
def zoo():
    return Zoo(Made(VARIANTS))
