"""Every test with an argument ``variant``, or ``decoder_only_variant``, runs for each model of the zoo."""

import pytest
from zoo import VARIANTS, Zoo

from selfattn.models.decoder_only.config import DecoderOnlyConfig


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", VARIANTS)
    if "decoder_only_variant" in metafunc.fixturenames:
        names = [name for name, config in VARIANTS.items() if isinstance(config, DecoderOnlyConfig)]
        metafunc.parametrize("decoder_only_variant", names)


@pytest.fixture(scope="session")
def zoo() -> Zoo:
    return Zoo(VARIANTS)
