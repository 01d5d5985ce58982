"""The plugin that Triton loads."""

import triton as triton  # first: Triton imports the plugin's modules while it is being imported
