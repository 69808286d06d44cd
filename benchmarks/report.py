"""What the benchmarks print, and draw."""

import numpy as np
from tabulate import tabulate

# Heading: how its figures are written.
_COLUMNS = {
    "case": "",
    "method": "",
    "median ms": ".4f",
    "quartiles ms": "",
    "x MPI": ".2f",
    "x memcpy": ".2f",
    "algbw GB/s": ".2f",
    "busbw GB/s": ".2f",
    "hop us": ".2f",
    "sent": ".4f",
}


def rows(
    case: str, num_bytes: int, num_ranks: int, timings: dict, sent_bytes: dict, hop_us: float
) -> list[dict]:
    """Figures of one case; ratios are to the better of MPI's ways, and to a plain copy."""
    medians = {method: float(np.median(seconds)) for method, seconds in timings.items()}
    out = []
    for method, seconds in timings.items():
        is_in_place = method.endswith((", in place", ", nothing packed"))
        place = ", in place" if is_in_place else ""
        best_mpi = min(medians[f"mpi flat{place}"], medians[f"mpi one by one{place}"])
        algbw = num_bytes / medians[method]
        low, high = np.percentile(seconds, [25, 75])
        out.append(
            {
                "case": case,
                "method": method,
                "bytes": num_bytes,
                "median_ms": medians[method] * 1e3,
                "quartiles_ms": [low * 1e3, high * 1e3],
                "repetitions": len(seconds),
                "ratio_to_mpi": medians[method] / best_mpi,
                "ratio_to_memcpy": medians[method] / medians["memcpy"],
                "algbw_gb_s": algbw / 1e9,
                "busbw_gb_s": algbw * 2 * (num_ranks - 1) / num_ranks / 1e9,
                "sent_bytes": sent_bytes.get(method),
                "hop_us": hop_us,
            }
        )
    return out


def print_rows(some_rows: list[dict]) -> None:
    """Prints the rows of one case as a table."""
    cells = [
        (
            row["case"],
            row["method"],
            row["median_ms"],
            "{:.4f} .. {:.4f}".format(*row["quartiles_ms"]),
            row["ratio_to_mpi"],
            row["ratio_to_memcpy"],
            row["algbw_gb_s"],
            row["busbw_gb_s"],
            row["hop_us"],
            None if row["sent_bytes"] is None else row["sent_bytes"] / row["bytes"],
        )
        for row in some_rows
    ]
    formats = tuple(_COLUMNS.values())
    print(tabulate(cells, list(_COLUMNS), "github", floatfmt=formats), end="\n\n", flush=True)


def plot(all_rows: list[dict], num_ranks: int, path: str) -> None:
    """Time over size, one line per method, single tensors only; a panel per state of the cores."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    single = [row for row in all_rows if row["case"].startswith("2^")]
    states = list(dict.fromkeys(_state(row) for row in single))
    methods = list(dict.fromkeys(row["method"] for row in single))
    colors = dict(zip(methods, plt.get_cmap("tab20").colors, strict=False))
    figure, panels = plt.subplots(
        ncols=len(states),
        figsize=(4 + 4 * len(states), 4.5),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for state, axes in zip(states, panels[0], strict=True):
        of_state = [row for row in single if _state(row) == state]
        for method in methods:
            of_method = [row for row in of_state if row["method"] == method]
            axes.loglog(
                [row["bytes"] for row in of_method],
                [row["median_ms"] for row in of_method],
                marker="o",
                markersize=3,
                color=colors[method],
                label=method,
            )
        cores = f", cores {state}" if state else ""
        axes.set(xlabel="bytes", title=f"allreduce, {num_ranks} ranks, float32{cores}")
        axes.grid(alpha=0.3)
    panels[0][0].set(ylabel="median ms")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside right", frameon=False)
    figure.savefig(path, dpi=150)


def _state(row: dict) -> str:
    """Whether the cores were near or far; empty where they were not told apart."""
    return row["case"].partition(", ")[2]
