"""Predicts allreduces on 2 to 4,096 ranks, from the schedule and constants measured here.

    .venv/bin/python -m benchmarks.scale
    .venv/bin/python -m benchmarks.scale --measure --real_time
    .venv/bin/python -m benchmarks.scale --check --real_time

The first predicts, and --plot=FILE draws it; --measure measures the constants anew and --check
compares predictions with real runs, on namespaces for hosts, which needs root.

Hosts have --ranks_per_host ranks and as many cores, each as fast as one of this machine, and a link
of --gbits and --round_us to a switch that is never full. Methods: Adasum of all ranks in one tree
("flat"; up to 8 ranks are one host, reduced directly), a sum inside every host and Adasum across
("hierarchical"), and a sum around a ring with the same constants. Columns: milliseconds, and of the
rank that sends most the messages and the bytes, over the bytes of the list. --real_time keeps the
ranks' cores from other load, which --measure and --check otherwise want to be none.
"""

import dataclasses
import json
from pathlib import Path

from absl import app, flags

from benchmarks.scale import report
from tf_adasum.advise import machine
from tf_adasum.advise.cost import Model

FLAGS = flags.FLAGS
flags.DEFINE_string("case", "resnet50", "A gradient list, COUNTxELEMENTS or one tensor's elements.")
flags.DEFINE_integer("ranks_per_host", 8, "Ranks on each host, and cores.", lower_bound=1)
flags.DEFINE_float("gbits", None, "Rate of each host's link, Gbit/s (default: as measured).")
flags.DEFINE_float("round_us", None, "A message each way between hosts (default: as measured).")
flags.DEFINE_integer("most_ranks", 4096, "The largest world.", lower_bound=2)
flags.DEFINE_string("constants", str(machine.MEASURED), "Where constants are.")
flags.DEFINE_string("plot", None, "Where a plot is written, a PNG.")
flags.DEFINE_string("json", None, "Where all figures are written.")
flags.DEFINE_bool("measure", False, "Measures the constants and writes them to --constants.")
flags.DEFINE_string("machine", "AMD EPYC, 2 virtual cores", "Its name, with --measure.")
flags.DEFINE_bool("check", False, "Compares predictions with real runs on this machine.")
flags.DEFINE_list("check_cases", ["1048576", "16777216", "resnet50"], "Cases of --check.")
flags.DEFINE_list("worlds", None, "HOSTSxRANKS of --check (default: up to 8 ranks, all ways).")
flags.DEFINE_integer("repetitions", 5, "Of each, with --check.", lower_bound=1)
flags.DEFINE_bool("real_time", False, "Ranks keep their cores from other load; needs root.")


def main(_) -> None:
    """Measures, compares or predicts."""
    path = Path(FLAGS.constants)
    if FLAGS.measure:
        from benchmarks.scale import measure

        machine.save(measure.constants(FLAGS.machine, FLAGS.real_time), path)
        return print(path.read_text())
    constants = machine.load(path)
    if FLAGS.check:
        rows = _check(constants)
        print(report.check_table(rows))
    else:
        rows = _predict(constants)
        print(report.table(rows))
        if FLAGS.plot:
            report.plot(rows, FLAGS.plot)
    if FLAGS.json:
        Path(FLAGS.json).write_text(json.dumps(rows, indent=1))
    return None


def _check(constants: machine.Constants) -> list[dict]:
    from benchmarks.scale import check

    worlds = check.WORLDS
    if FLAGS.worlds:
        worlds = [tuple(map(int, world.split("x"))) for world in FLAGS.worlds]
    return check.compare(constants, FLAGS.check_cases, FLAGS.repetitions, worlds, FLAGS.real_time)


def _predict(constants: machine.Constants) -> list[dict]:
    from benchmarks.scale.cases import sizes_of

    if FLAGS.gbits:
        constants = dataclasses.replace(constants, network_gbit_s=FLAGS.gbits)
    if FLAGS.round_us:
        constants = dataclasses.replace(constants, network_round_us=FLAGS.round_us)
    sizes = sizes_of(FLAGS.case)
    rows = []
    size = 2
    while size <= FLAGS.most_ranks:
        per_host = min(size, FLAGS.ranks_per_host)
        model = Model(machine.Cluster(size // per_host, per_host, FLAGS.ranks_per_host), constants)
        for method in ("flat", "hierarchical", "ring"):
            if method == "hierarchical" and size == per_host:
                continue
            predicted = getattr(model, method)(sizes)
            rows.append(
                {
                    "case": FLAGS.case,
                    "ranks": size,
                    "ranks_per_host": per_host,
                    "gbits": constants.network_gbit_s,
                    "method": method,
                    "milliseconds": 1e3 * predicted.seconds,
                    "messages": int(predicted.messages.max()),
                    "sent_bytes": int(predicted.sent_bytes.max()),
                    "bytes": 4 * sum(sizes),
                }
            )
        size *= 2
    return rows


if __name__ == "__main__":
    app.run(main)
