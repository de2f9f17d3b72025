"""What holds for all tests: none asserts wall-clock time, and so hypothesis does not either."""

from hypothesis import HealthCheck, settings

# A busy machine is no defect: neither a slow example nor slow generation (its tables of characters, the first time).
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same commit passes or fails everywhere alike. New examples are what `make search` is for; what it finds becomes
# an `@example` of its test.
settings.register_profile("fairlane", patient, derandomize=True, database=None)
settings.register_profile("search", patient, max_examples=2000, print_blob=True)
settings.load_profile("fairlane")
