"""Query matrices with strategies of their own, one file each.

A file may hold all that is known of a matrix: the class, its rules for the questions of
`mmech.structure`, its pairs with strategies (`mmech.error.rules`), the integer form of
a strategy, and a template. ``mmech/__init__.pyi`` lists it, and nothing else has to be
edited.
"""
