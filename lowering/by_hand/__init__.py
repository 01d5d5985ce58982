"""Programs written in XeTile or XeGPU by hand."""
