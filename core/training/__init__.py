"""Training of models: at providers behind one protocol, and by the operator's own trainer.

`service.py` has what requests do, `trainer.py` the process that submits, polls and ends trainings.
"""
