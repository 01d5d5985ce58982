"""`triton-xe report`: one page about one kernel, from its source lines to its predicted time.

`gathering` compiles, predicts and counts.  `stages` finds the source line of each line of a stage.
`pictures` draws, `page` writes the HTML, and `watching` observes the launches of a script.
"""
