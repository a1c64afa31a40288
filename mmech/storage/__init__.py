"""Files: objects as the arguments of their constructors, without pickle.

=======  ===========================================================
archive  one ZIP file of a JSON description and NumPy arrays
codec    objects of `storable` classes as entries of the description
=======  ===========================================================
"""
