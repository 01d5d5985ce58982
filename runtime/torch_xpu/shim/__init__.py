"""The C++ library that registers the simulated device with torch; `compilation` builds it."""
