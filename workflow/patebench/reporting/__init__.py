"""Records, tables, figures and the report: everything that is read by people.

Nothing here trains, votes, releases or accounts; it only reads what those stages wrote.
"""
