"""What a release costs, whom it protects, and the ledger that it is paid from.

===========  ==============================================================
cost         pure epsilon, rho of zCDP, and conversions between them
neighbours   which data sets are neighbours, and how much one record counts
entry        one release: its price in each currency, and how it is written
answers      what several releases cost together, in every currency
numerical    privacy losses added up, with the extra ``mmech[accounting]``
ledger       the account: every release is charged before it is drawn
ledger_file  where an account is kept that outlives the program
guards       keeps budgets from being rewritten, or used in two places
===========  ==============================================================
"""
