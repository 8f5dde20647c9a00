"""Settings of the properties."""

from hypothesis import settings

settings.register_profile("spyrl", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("spyrl")
