"""What the benchmarks print, and draw."""

import numpy as np

_HEADER = (
    f"{'case':>10} {'method':<24} {'median ms':>10} {'quartiles ms':>18} {'x MPI':>6} "
    f"{'x memcpy':>8} {'algbw GB/s':>10} {'busbw GB/s':>10} "
    f"{'hop us':>6} {'sent':>8}"
)


def rows(
    case: str, num_bytes: int, num_ranks: int, timings: dict, sent_bytes: dict, hop_us: float
) -> list[dict]:
    """Figures of one case; ratios are to the better of MPI's ways, and to a plain copy."""
    medians = {method: float(np.median(seconds)) for method, seconds in timings.items()}
    out = []
    for method, seconds in timings.items():
        place = ", in place" if method.endswith(", in place") else ""
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
                "ratio_to_mpi": medians[method] / best_mpi,
                "ratio_to_memcpy": medians[method] / medians["memcpy"],
                "algbw_gb_s": algbw / 1e9,
                "busbw_gb_s": algbw * 2 * (num_ranks - 1) / num_ranks / 1e9,
                "sent_bytes": sent_bytes.get(method),
                "hop_us": hop_us,
            }
        )
    return out


def print_rows(some_rows: list[dict], is_first: bool) -> None:
    """Prints the rows of one case as a table, with the header before the first."""
    if is_first:
        print(_HEADER)
    for row in some_rows:
        low, high = row["quartiles_ms"]
        sent = row["sent_bytes"]
        ratio = "" if sent is None else f"{sent / row['bytes']:8.4f}"
        print(
            f"{row['case']:>10} {row['method']:<24} {row['median_ms']:10.4f} "
            f"{low:8.4f}..{high:8.4f} {row['ratio_to_mpi']:6.2f} {row['ratio_to_memcpy']:8.2f} "
            f"{row['algbw_gb_s']:10.2f} {row['busbw_gb_s']:10.2f} "
            f"{row['hop_us']:6.2f} {ratio}",
            flush=True,
        )


def plot(all_rows: list[dict], num_ranks: int, path: str) -> None:
    """Time over size, one line per method, single tensors only."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    single = [row for row in all_rows if row["case"].startswith("2^")]
    for method in dict.fromkeys(row["method"] for row in single):
        of_method = [row for row in single if row["method"] == method]
        axes.loglog(
            [row["bytes"] for row in of_method],
            [row["median_ms"] for row in of_method],
            marker="o",
            markersize=3,
            label=method,
        )
    axes.set(xlabel="bytes", ylabel="median ms", title=f"allreduce, {num_ranks} ranks, float32")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
