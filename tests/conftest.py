"""What holds for all tests: none asserts wall-clock time, and so hypothesis does not either."""

from hypothesis import HealthCheck, settings

# A busy machine is no defect: neither a slow example nor slow generation (its tables of characters, the first time).
settings.register_profile("fairlane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fairlane")
