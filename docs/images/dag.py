"""Draws the rules of the default run as they are:

snakemake --rulegraph | python docs/images/dag.py | dot -Tsvg > docs/images/dag.svg

Arrows that others imply are left out. The dashed one leads back: a further round of queries.
"""

import re
import sys

STYLES = {
    "#E69F00": ("data", "split", "partition"),
    "#0072B2": ("train_teachers", "join_votes"),
    "#009E73": ("aggregate", "secure_share", "secure_sum", "secure_open"),
    "#D55E00": ("account", "audit"),
    "#CC79A7": (
        *("extract_features", "select_queries", "train_student", "distil"),
        *("train_petdl", "train_baseline", "name_clusters", "train_dpsgd", "train_private_knn"),
    ),
    "#555555": ("collect", "figures", "tables", "rows", "manifest", "report"),
}

#: What a rule is about, and whether it has many jobs in one run.
WORDS = {
    "partition": ("shards", False),
    "train_teachers": ("one job per chunk", True),
    "join_votes": ("one matrix", False),
    "extract_features": ("of the pool", False),
    "select_queries": ("of a round", True),
    "aggregate": ("mechanism × noise", True),
    "secure_share": ("one job per chunk", True),
    "secure_sum": ("one per aggregator", True),
    "secure_open": ("counts, labels", False),
    "account": ("every bound on ε", True),
    "train_student": ("method × queries", True),
    "distil": ("non-private", False),
    "train_petdl": ("as published, and sound", True),
    "train_baseline": ("non-private", False),
    "name_clusters": ("by true labels", True),
    "train_dpsgd": ("form × ε", True),
    "train_private_knn": ("as published, and sound", True),
    "audit": ("what is lost at least", True),
    "rows": ("for other programs", False),
}
#: What a round passes on to the next would make a ring of what is a chain: one arrow stands for it.
NEXT_ROUND = ("train_student", "select_queries")
PASSED_ON = {NEXT_ROUND, ("aggregate", "select_queries"), ("aggregate", "aggregate")}

#: Several rules may run one stage; they are drawn as one.
VARIANT = re.compile("_in_round$|_on_truth$")

Arrows = set[tuple[str, str]]


def node(rule: str) -> str:
    about, many = WORDS.get(rule, ("", False))
    (colour,) = (colour for colour, rules in STYLES.items() if rule in rules)
    label = rule.replace("_", " ") + (f"\\n{about}" if about else "")
    return f'{rule}[label="{label}",color="{colour}",peripheries={2 if many else 1}];'


def reduced(arrows: Arrows) -> Arrows:
    """Without the arrows that a longer way implies."""

    def beyond(rule: str) -> set[str]:
        after = {end for start, end in arrows if start == rule}
        return after.union(*map(beyond, after))

    return {(start, end) for start, end in arrows if not any(end in beyond(via) for a, via in arrows if a == start)}


def main() -> None:
    drawn = sys.stdin.read()
    rules = {number: VARIANT.sub("", rule) for number, rule in re.findall(r'(\d+)\[label = "(\w+)"', drawn)}
    arrows = {(rules[start], rules[end]) for start, end in re.findall(r"(\d+) -> (\d+)", drawn)}
    shown = sorted(reduced({(start, end) for start, end in arrows if end != "all"} - PASSED_ON))
    print("digraph rules{rankdir=LR;bgcolor=white;nodesep=.22;ranksep=.32;")
    print('node[shape=box,style="rounded,filled",fillcolor=white,fontname="Helvetica",fontsize=11,penwidth=1.6];')
    print('edge[color="#999999",fontname="Helvetica",fontsize=10,fontcolor="#777777"];')
    print("\n".join(node(rule) for rule in sorted(set(rules.values()) - {"all"})))
    print("\n".join(f"{start}->{end};" for start, end in shown))
    if NEXT_ROUND in arrows:
        print(f'{"->".join(reversed(NEXT_ROUND))}[dir=back,style=dashed,label="next round"];')
    print("}")


if __name__ == "__main__":
    main()
