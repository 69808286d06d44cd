"""`advise`: what a training would take on more ranks, measured on those that are there."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import keras

from adasumrun.lines import counted
from tf_adasum import keras_hooks
from tf_adasum.advise import choices, examples, gradients, machine, noise, reduction, steps
from tf_adasum.advise.advice import Advice, Row
from tf_adasum.advise.calibration import LONG
from tf_adasum.advise.hosts import Hosts, checked_hosts
from tf_adasum.advise.kept_state import KeptState
from tf_adasum.advise.refusal import NoAdviceError, refuse_together
from tf_adasum.advise.step_cost import Measured, StepModel
from tf_adasum.collectives.arguments import checked_group
from tf_adasum.collectives.checked_numbers import checked_float, checked_int
from tf_adasum.collectives.communicator import Communicator
from tf_adasum.distribute.bucketing import make_buckets
from tf_adasum.distribute.strategy import AdasumStrategy

RANKS = tuple(2**level for level in range(11))
_BATCHES = 8
_FEW_SECONDS = 0.5  # for a reduction and a copy


def advise(
    model: keras.Model,
    dataset: Any,
    ranks: Sequence[int] = RANKS,
    hosts: dict[str, float] | None = None,
    budget_seconds: float = 10.0,
    **fit: Any,
) -> Advice:
    """Measures a model's training on this machine and predicts it for more ranks.

        step(N) = computation + what the exchange costs a rank + reduction(N) - what is hidden
        efficiency(N) = step(1) / step(N),    R = step(N) / step(1) - 1
        B_noise = tr(Sigma) / |G|^2,    wasted(N) = (N - 1) b / (B_noise + b) epochs

    with b the examples of a rank's step, G the gradient and Sigma the covariance of an example's.
    Called on all ranks of a job, it times steps with their exchange too; all ranks get the same
    numbers. Weights, optimizer, metrics and random states are afterwards as they were; a model
    that was not built is.

    Args:
        model: a compiled Keras model.
        dataset: what `fit` would train on: a batched `tf.data.Dataset`, arrays (with `y` and
            `batch_size`), a `PyDataset`. A few batches of it are read. Under an `AdasumStrategy` a
            batch is that of all ranks, as for `fit`.
        ranks: numbers of ranks to predict for, ints >= 1.
        hosts: those to predict for, a dict with any of "ranks" on each (as many as here),
            "gbits" of each host's link (25 Gbit/s; measured where there are several hosts) and
            "round_us" of a message there and back (30 us; likewise).
        budget_seconds: about how long steps are timed; gradients are taken for as long again.
        fit: further arguments of `fit` that say what the data are: y, batch_size, sample_weight,
            class_weight, shuffle.

    Returns:
        An `Advice`: `rows`, one for each number of ranks; `print` it for a table; `plot(path)`.

    Raises:
        ValueError: the model is not compiled, or the dataset has no examples, or fewer in a batch
            than there are ranks, or a number of ranks is not in [1, 2**20], or ranks have unlike
            numbers of devices, or `budget_seconds` or a rate of `hosts` is not above 0.
        TypeError: `hosts` has another key, or a number of ranks is no int, or `budget_seconds` or
            a rate no number.

    Example:
        >>> import keras, numpy as np, tf_adasum as adasum
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> model.compile(adasum.wrap(keras.optimizers.SGD(0.1)), loss="mse")
        >>> x = np.random.default_rng(0).standard_normal((256, 4))
        >>> advice = adasum.advise(model, x, y=x[:, :1], batch_size=8, budget_seconds=0.1)
        >>> [row.ranks for row in advice.rows][-1], advice.rows[3].rate
        (1024, 'x1')

    Source: McCandlish et al., "An Empirical Model of Large-Batch Training", 2018; the model of cost
    is docs/advise.md.
    """
    ranks = [checked_int("ranks", number, 1, 2**20) for number in ranks]
    budget_seconds = checked_float("budget_seconds", budget_seconds, 0, above=True)
    predicted = checked_hosts(hosts)
    strategy = getattr(model, "distribute_strategy", None)
    is_ours = isinstance(strategy, AdasumStrategy)
    communicator = strategy.extended.communicator if is_ours else checked_group(None)
    _check_model(model, communicator)
    part, parts = (communicator.rank, communicator.size) if is_ours else (0, 1)
    found = _draw({**fit, "x": dataset}, part, parts, communicator)
    kept = KeptState(model)
    with contextlib.ExitStack() as stack:
        stack.callback(kept.put_back)
        measured, statistics = _measure(model, found, communicator, budget_seconds, kept)
    return _predict(model, measured, statistics, ranks, predicted)


def _check_model(model: Any, communicator: Communicator) -> None:
    own = ""
    if not isinstance(model, keras.Model):
        own = (
            f"Expected a Keras model. Received: {type(model).__name__}. Pass what you call fit of."
        )
    elif not model.compiled or model.optimizer is None:
        own = (
            f"Expected a compiled model. Received: {model.name}, not compiled. "
            "Call model.compile(optimizer, loss) first."
        )
    elif _counts_of_devices(model):
        own = (
            "Expected as many devices on each rank, as advice is for more ranks like these. "
            f"Received: {_counts_of_devices(model)}. Name as many devices on each."
        )
    refuse_together(own, communicator, "model")
    keras_hooks.install()


def _counts_of_devices(model: keras.Model) -> list[int]:
    """Of the ranks, if they have unlike numbers of them."""
    is_ours = isinstance(model.distribute_strategy, AdasumStrategy)
    return model.distribute_strategy.extended.numbers.for_ops if is_ours else []


def _draw(
    given: dict[str, Any], part: int, parts: int, communicator: Communicator
) -> examples.Examples:
    own, found = "", None
    try:
        found = examples.draw(given, part, parts, _BATCHES)
    except Exception as error:  # the user's data raise what they will, on this rank alone
        text = " ".join(str(error).split())[:300]
        own = f"Expected data that fit takes. Received: {type(error).__name__}: {text}"
    if found is not None and not found.own:
        ranks = counted(parts, "rank")
        what = "no batch at all" if found.whole is None else f"batches shorter than {ranks}"
        own = (
            f"Expected a dataset with examples for each of {ranks}. Received: {what}. "
            "Pass a dataset with batches of at least one example a rank."
        )
    refuse_together(own, communicator, "data")
    if found is None:  # not reached: another rank's sentence is raised on all
        raise NoAdviceError(own)
    return found


def _measure(
    model: keras.Model,
    found: examples.Examples,
    communicator: Communicator,
    budget_seconds: float,
    kept: KeptState,
) -> tuple[Measured, gradients.GradientStatistics | None]:
    """Times steps with the exchange, then without; takes gradients; times reductions."""
    is_ours = isinstance(model.distribute_strategy, AdasumStrategy)
    exchanges = is_ours and communicator.size > 1
    part = budget_seconds / (2 if exchanges else 1)
    together = None
    if exchanges:
        together = steps.time_steps(model, found.whole, communicator, part, [kept])
    with steps.alone(model, communicator):
        own = steps.time_steps(model, found.own[0], communicator, part, [kept])
        forward = steps.time_forward(model, found.own[0], communicator)
        kept.put_values_back()  # gradients are those of the weights that were given
        wanted = max(2, min(len(found.own), int(budget_seconds / max(own.seconds, 1e-6))))
        parameters = sum(math.prod(each.shape) for each in model.trainable_variables)
        statistics = gradients.measure(
            model, found.own[:wanted], found.rows, communicator, parameters
        )
    times = {
        "alone_seconds": own.seconds,
        "forward_seconds": forward,
        "cpu_seconds": own.cpu_seconds,
        "together_seconds": together and together.seconds,
        "input_seconds": steps.slowest(found.seconds, communicator),
    }
    return _with_reductions(model, found.rows, communicator, times), statistics


def _with_reductions(
    model: keras.Model, rows: int, communicator: Communicator, times: dict[str, Any]
) -> Measured:
    """Times reductions and a copy, and adds what the model and the ranks are."""
    is_ours = isinstance(model.distribute_strategy, AdasumStrategy)
    extended = model.distribute_strategy.extended
    shapes = [tuple(each.shape) for each in model.trainable_variables]
    sizes = [math.prod(shape) for shape in shapes]
    buckets = make_buckets([4 * size for size in sizes])
    local = extended.settings["local_reduction"] if is_ours else "adasum"

    def time_reduction(shapes, buckets) -> float:
        return reduction.time_reduction(shapes, buckets, local, communicator, _FEW_SECONDS)

    return Measured(
        ranks=communicator.size,
        hosts=len(communicator.hosts),
        ranks_per_host=max(map(len, communicator.hosts)),
        cores=machine.cores_here(),
        replicas=extended.num_local_replicas if is_ours else 1,
        batch=rows,
        sizes=sizes,
        buckets=buckets,
        local_reduction=local,
        finds_changes=choices.finds_changes(model),
        reduction_seconds=time_reduction(shapes, buckets) if communicator.size > 1 else None,
        small_seconds=time_reduction([(1,)], [[0]]),
        long_seconds=time_reduction([(LONG,)], [[0]]) if len(communicator.hosts) > 1 else None,
        copy_seconds=reduction.time_copy(4 * sum(sizes), communicator, _FEW_SECONDS),
        **times,
    )


def _predict(
    model: keras.Model,
    measured: Measured,
    statistics: gradients.GradientStatistics | None,
    ranks: list[int],
    hosts: Hosts,
) -> Advice:
    network = {"network_gbit_s": hosts.gbits, "network_round_us": hosts.round_us}
    constants = dataclasses.replace(machine.load(), **network)
    per_host = hosts.ranks or measured.ranks_per_host
    costs = StepModel(measured, constants, per_host)
    return Advice(
        rows=[_row(model, measured, statistics, costs, number) for number in ranks],
        measured=measured,
        gradients=statistics,
        optimizer=choices.describe(model),
        scale=costs.scale,
        network=(costs.constants.network_gbit_s, costs.constants.network_round_us),
        ranks_per_host=per_host,
    )


def _row(
    model: keras.Model,
    measured: Measured,
    statistics: gradients.GradientStatistics | None,
    costs: StepModel,
    ranks: int,
) -> Row:
    one, cost = costs.predict(1), costs.predict(ranks)
    overhead = cost.step / one.step - 1
    scale, combined, is_measured = math.nan, noise.Combined(math.nan, math.nan), False
    batch = measured.batch
    if statistics is not None:
        scale = statistics.noise.scale
        of_leaf, leaves = max(1, batch // measured.replicas), ranks * measured.replicas
        combined = noise.expected_adasum(statistics.noise, of_leaf, leaves)
        of_rank = noise.expected_adasum(statistics.noise, of_leaf, measured.replicas)
        seen = {1: 1.0, **statistics.orthogonality.get(of_leaf, {})}
        is_measured = leaves in seen
        combined = noise.Combined(
            seen.get(leaves, combined.orthogonality), combined.gain / of_rank.gain
        )
    is_known = not math.isnan(scale)
    return Row(
        ranks=ranks,
        step_seconds=cost.step,
        reduction_seconds=cost.reduction,
        exposed_seconds=cost.exposed,
        efficiency=one.step / cost.step,
        overhead=overhead,
        efficiency_of_fixed_batch=(1 + overhead) / (1 + ranks * overhead),
        wasted_epochs=noise.wasted_epochs(ranks, batch, scale),
        orthogonality=combined.orthogonality,
        is_measured=is_measured,
        gain=combined.gain,
        reduction=choices.reduction_for(ranks, batch, scale, combined) if is_known else "?",
        batch=choices.batch_for(batch, one.step, cost.step - one.step, scale),
        rate=choices.rate_for(ranks * measured.replicas, model),
    )
