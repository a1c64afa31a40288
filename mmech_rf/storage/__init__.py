"""Released models as files: data that anyone may read, without pickle.

A file holds what was released or is public: noisy counts or drawn trees and what votes
were made of them, forests, schema, parameters, and the record of what was spent. Exact
counts, noise sources, ledgers and timings have no place in it.
"""

from mmech_rf.storage.file import load_model, save_model

__all__ = ["load_model", "save_model"]
