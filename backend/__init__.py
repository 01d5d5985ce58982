"""The plugin that Triton loads."""

from triton_xe.backend.extra import extend

extend()  # before Triton imports `triton.language.extra`, which is once it has imported the plugin

import triton as triton  # noqa: E402 - first: Triton imports the plugin while it is being imported
