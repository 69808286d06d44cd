"""Prints the figures of benchmarks.allreduce as the tables of docs/performance.md.

python -m benchmarks.markdown docs/performance/allreduce2.json
"""

import argparse
import json

from tabulate import tabulate

# Heading: method; figures are medians in ms.
_TIMES = {
    "memcpy": "memcpy",
    "MPI flat": "mpi flat",
    "MPI one by one": "mpi one by one",
    "sum": "sum",
    "Adasum": "adasum",
    "MPI in place": None,  # the better of its two ways
    "sum in place": "sum, in place",
    "Adasum in place": "adasum, in place",
    "sum, nothing packed": "sum, nothing packed",
    "Adasum, nothing packed": "adasum, nothing packed",
}


def table(rows: list[dict]) -> str:
    """One line a case; ratios as the benchmark defines them.

    Args:
        rows: what benchmarks.allreduce wrote to its JSON file as "rows".

    Returns:
        A Markdown table.
    """
    cases: dict[str, dict[str, dict]] = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["method"]] = row
    ratios = ["Adasum / MPI", "in place", "nothing packed", "Adasum / sum", "in place"]
    ratios += ["Adasum / memcpy", "nothing packed", "hop us"]
    headers = ["case", *_TIMES, *ratios]
    cells = [_cells(case, methods) for case, methods in cases.items()]
    alignment = ["left", *["right"] * (len(headers) - 1)]
    return tabulate(cells, headers, "pipe", disable_numparse=True, colalign=alignment)


def _cells(case: str, methods: dict[str, dict]) -> list[str]:
    def median(method: str) -> float:
        return methods[method]["median_ms"]

    ways = ["mpi flat, in place", "mpi one by one, in place"]
    in_place = min(median(way) for way in ways)
    times = [in_place if method is None else median(method) for method in _TIMES.values()]
    adasum, placed = methods["adasum"], methods["adasum, in place"]
    shared = methods["adasum, nothing packed"]
    ratios = [
        adasum["ratio_to_mpi"],
        placed["ratio_to_mpi"],
        shared["ratio_to_mpi"],
        median("adasum") / median("sum"),
        median("adasum, in place") / median("sum, in place"),
        adasum["ratio_to_memcpy"],
        shared["ratio_to_memcpy"],
        adasum["hop_us"],
    ]
    return [case, *map(_digits, times), *(f"{ratio:.2f}" for ratio in ratios)]


def _digits(milliseconds: float) -> str:
    return f"{milliseconds:.1f}" if milliseconds >= 10 else f"{milliseconds:.3g}"


def main() -> None:
    """Prints the table of each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="JSON files of benchmarks.allreduce")
    for path in parser.parse_args().files:
        with open(path) as file:
            measured = json.load(file)
        print(
            f"{measured['ranks']} ranks, {measured['cores']} cores\n\n{table(measured['rows'])}\n"
        )


if __name__ == "__main__":
    main()
