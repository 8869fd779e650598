"""The order desk of a small shop: the graph, the shop and the proof behind ``pyrula demo``.

Everything except the command itself is what a user of plain LangGraph would write: it imports
nothing from Pyrula and runs without it.
"""
