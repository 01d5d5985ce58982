"""What each hardware instruction does, once, in plain Python: the oracle of the native forms.

Registers are *images*: a work-item vector `<n x T>` over S lanes is an array of n*S elements,
index = element * S + lane; operands that the hardware takes as raw registers are byte arrays.
"""
