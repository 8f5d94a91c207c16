"""Training of models: at providers behind one protocol, and by the operator's own trainer.

`service.py` has the work of requests, `trainer.py` the process that submits, polls and ends trainings.
"""
