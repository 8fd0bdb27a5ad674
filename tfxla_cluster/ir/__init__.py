"""HLO as immutable Python objects: table of opcodes, text and proto forms, verifier, evaluator.

Imports nothing of TensorFlow and nothing of later stages.
"""
