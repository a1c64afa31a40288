"""Files: objects as the arguments of their constructors, without pickle.

``archive``     one ZIP file of a JSON description and NumPy arrays
``codec``       `storable` classes as entries of the description
``strategies``  operators and results of `mmech.optimize`: `mmech.save`, `mmech.load`
``export``      measured marginals as tables for other tools
"""
