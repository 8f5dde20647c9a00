"""What tests of several trainers ask for."""

import pytest


@pytest.fixture(scope="module")
def real_trl():
    """Skips where TRL isn't installed in the version that its trainer was tried with."""
    from trainers.trl.config import check_version

    try:
        check_version()
    except ValueError as error:
        pytest.skip(str(error))
