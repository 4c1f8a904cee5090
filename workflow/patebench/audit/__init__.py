"""Audits: what a mechanism loses at least, worked out and measured, beside what is stated of it.

Stated bounds are upper bounds with a proof behind them, or a claim. An audit needs neither: it names two adjacent data
sets, and an event that tells them apart better than the stated ε allows, or finds none.
"""
