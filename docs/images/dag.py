"""Draws the rules of the default run as they are:

snakemake --rulegraph | python docs/images/dag.py | tred | dot -Tsvg > docs/images/dag.svg

Snakemake's own picture has a node for every figure and table; here all of a kind are one. `tred` leaves out arrows that
others imply.
"""

import re
import sys

STYLES = {
    "#E69F00": ("data", "split", "partition"),
    "#0072B2": ("teach", "votes"),
    "#009E73": ("aggregate", "answer", "secure_share", "secure_sum", "secure_open"),
    "#D55E00": ("account", "charge", "audit"),
    "#CC79A7": ("student", "features", "ask", "learn", "distil", "baseline"),
    "#555555": ("collect", "figure", "table", "manifest", "report"),
}

#: What a rule is about, and whether it has many jobs in one run.
WORDS = {
    "partition": ("shards", False),
    "teach": ("one job per chunk of teachers", True),
    "votes": ("one matrix", False),
    "aggregate": ("mechanism × noise", True),
    "account": ("every bound on ε", True),
    "audit": ("what is lost at least", True),
    "student": ("method × queries", True),
    "baseline": ("non-private", False),
    "distil": ("non-private", False),
    "secure_share": ("one job per chunk", True),
    "secure_sum": ("one per aggregator", True),
    "secure_open": ("counts, labels", False),
    "features": ("of the pool", False),
    "ask": ("a round's queries", True),
    "answer": ("labels", True),
    "charge": ("bounds on ε", True),
    "learn": ("a round's student,\\nwho asks in the next", True),
    "figure": ("one rule each", True),
    "table": ("one rule each", True),
}
#: Arrows back, which would make a ring of what is a chain of rounds.
NEXT_ROUND = {("learn", "ask"), ("answer", "ask")}


def kind(rule: str) -> str:
    """The rule itself, but one name for all figures and one for all tables."""
    return re.sub(r"^(figure|table)_.*", r"\1", rule)


def node(rule: str) -> str:
    about, many = WORDS.get(rule, ("", False))
    (colour,) = (colour for colour, rules in STYLES.items() if rule in rules)
    label = rule.replace("_", " ") + (f"\\n{about}" if about else "")
    return f'{rule}[label="{label}",color="{colour}",peripheries={2 if many else 1}];'


def main() -> None:
    drawn = sys.stdin.read()
    rules = {number: kind(rule) for number, rule in re.findall(r'(\d+)\[label = "(\w+)"', drawn)}
    arrows = {(rules[start], rules[end]) for start, end in re.findall(r"(\d+) -> (\d+)", drawn)}
    arrows = {(start, end) for start, end in arrows if start != end and end != "all"} - NEXT_ROUND
    print("digraph rules{rankdir=LR;bgcolor=white;nodesep=.22;ranksep=.32;")
    print('node[shape=box,style="rounded,filled",fillcolor=white,fontname="Helvetica",fontsize=11,penwidth=1.6];')
    print('edge[color="#999999"];')
    print("\n".join(node(rule) for rule in sorted(set(rules.values()) - {"all"})))
    print("\n".join(f"{start}->{end};" for start, end in sorted(arrows)) + "}")


if __name__ == "__main__":
    main()
