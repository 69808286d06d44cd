"""What benchmarks.scale prints and draws."""

from tabulate import tabulate

_STYLES = {"flat": "o-", "hierarchical": "s-", "ring": "^--"}


def table(rows: list[dict]) -> str:
    """Predictions, a line for each world.

    Args:
        rows: a dict for each world and method, of equal case and link.

    Returns:
        A Markdown table.
    """
    worlds: dict[int, dict[str, dict]] = {}
    for row in rows:
        worlds.setdefault(row["ranks"], {})[row["method"]] = row
    headers = ["ranks"]
    headers += [f"{method} {what}" for what in ("ms", "messages", "bytes") for method in _STYLES]
    cells = []
    for ranks, methods in worlds.items():
        line = [f"{ranks:,}"]
        for write in (
            lambda row: f"{row['milliseconds']:,.4g}",
            lambda row: f"{row['messages']:,}",
            lambda row: f"{row['sent_bytes'] / row['bytes']:.2f}",
        ):
            line += [write(methods[name]) if name in methods else "" for name in _STYLES]
        cells.append(line)
    alignment = ["right"] * len(headers)
    return tabulate(cells, headers, "pipe", disable_numparse=True, colalign=alignment)


def check_table(rows: list[dict]) -> str:
    """Predictions beside what was measured.

    Args:
        rows: what `benchmarks.scale.check.compare` returns.

    Returns:
        A Markdown table.
    """
    headers = ["hosts x ranks", "case", "method", "measured ms", "quartiles", "predicted", "ratio"]
    cells = [
        [
            f"{row['hosts']} x {row['ranks']}",
            row["case"],
            row["method"],
            f"{1e3 * row['measured']:.4g}",
            "{:.4g} .. {:.4g}".format(*(1e3 * quartile for quartile in row["quartiles"])),
            f"{1e3 * row['predicted']:.4g}",
            f"{row['predicted'] / row['measured']:.2f}",
        ]
        for row in rows
    ]
    alignment = ["left"] * 3 + ["right"] * 4
    return tabulate(cells, headers, "pipe", disable_numparse=True, colalign=alignment)


def plot(rows: list[dict], path: str) -> None:
    """Time over ranks, a line for each method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for method, style in _STYLES.items():
        of_method = [row for row in rows if row["method"] == method]
        ranks = [row["ranks"] for row in of_method]
        axes.loglog(
            ranks,
            [row["milliseconds"] for row in of_method],
            style,
            markersize=3,
            label="ring sum" if method == "ring" else f"{method} Adasum",
        )
    first = rows[-1]
    title = f"predicted: {first['case']}, {first['ranks_per_host']} ranks a host"
    axes.set(
        xlabel="ranks", ylabel="milliseconds", title=f"{title}, {first['gbits']:.3g} Gbit/s a host"
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
