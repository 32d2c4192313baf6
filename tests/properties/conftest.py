"""Every test with an argument ``variant`` runs for each model of the zoo, ``state_variant`` for each kind of state."""

import pytest
from zoo import STATEFUL, VARIANTS, Zoo

from selfattn.models.decoder_only.config import DecoderOnlyConfig


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", VARIANTS)
    if "state_variant" in metafunc.fixturenames:
        metafunc.parametrize("state_variant", STATEFUL)
    if "decoder_only_variant" in metafunc.fixturenames:
        names = [name for name, config in VARIANTS.items() if isinstance(config, DecoderOnlyConfig)]
        metafunc.parametrize("decoder_only_variant", names)


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo(VARIANTS)
