"""Fixtures of several trainers' tests."""

import pytest


@pytest.fixture(scope="module")
def real_trl():
    """Skip where the tested version of TRL isn't installed."""
    from trainers.trl.checks import check_version

    try:
        check_version()
    except ValueError as error:
        pytest.skip(str(error))
