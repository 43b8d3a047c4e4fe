"""A kernel and two regions of Millstream for arrays of Python's frameworks."""

from ._native import Array, LentArray, Stream, add, odds_gradient, probabilities, stream

__all__ = ["Array", "LentArray", "Stream", "add", "odds_gradient", "probabilities", "stream"]
