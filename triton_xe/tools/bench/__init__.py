"""`triton-xe bench`: functions of `triton.testing.perf_report`, predicted for several devices.

`measuring` runs a file on one simulated device, `plot` draws the results.
"""
