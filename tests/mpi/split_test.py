"""Communicator.split: colors, keys, none, splits of splits, and several groups in use at once."""

import re
import threading

import numpy as np
import pytest
import tensorflow as tf

import tf_adasum as adasum


def _sum(communicator, value, name="sum"):
    result = adasum.allreduce(
        tf.constant([value], tf.float64), "sum", communicator=communicator, name=name
    )
    return float(result[0])


def test_colors_make_groups():
    world = adasum.world()
    for num_colors in (1, 2, 3):
        members = range(world.rank % num_colors, world.size, num_colors)
        part = world.split(world.rank % num_colors)
        assert part.size == len(members)
        assert part.rank == members.index(world.rank)
        assert (part.local_rank, part.local_size) == (part.rank, part.size)
        assert _sum(part, world.rank) == sum(members)
        part.close()


def test_keys_order_the_ranks():
    world = adasum.world()
    backwards = world.split(0, key=-world.rank)
    assert backwards.rank == world.size - 1 - world.rank
    first = adasum.broadcast(tf.constant(world.rank), communicator=backwards)
    assert int(first) == world.size - 1
    # Equal keys keep the order.
    assert world.split(0, key=5).rank == world.rank


def test_order_of_the_ranks_is_that_of_the_tree():
    """Adasum in a group is Adasum of its members in the group's order."""
    from tests.reference import adasum as reference

    world = adasum.world()
    vectors = np.random.default_rng(0).normal(size=(world.size, 40))
    backwards = world.split(0, key=-world.rank)
    result = adasum.allreduce(tf.constant(vectors[world.rank]), communicator=backwards)
    expected = reference.reduce(list(vectors[::-1]))
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_a_strategy_of_a_group_has_its_ranks_as_workers():
    world = adasum.world()
    backwards = world.split(0, key=-world.rank)
    resolver = adasum.AdasumStrategy(communicator=backwards).cluster_resolver
    assert (resolver.task_type, resolver.task_id) == ("worker", backwards.rank)
    names = [f"rank{number}" for number in reversed(range(world.size))]
    assert resolver.cluster_spec().as_dict() == {"worker": names}


def test_none_takes_part_without_a_group():
    world = adasum.world()
    part = world.split(None if world.rank == 0 else 3)
    if world.rank == 0:
        assert part is None
    else:
        assert part.size == world.size - 1
        assert part.rank == world.rank - 1
        assert _sum(part, 1) == world.size - 1
    assert world.split(None) is None


def test_split_of_a_split():
    world = adasum.world()
    half = world.split(world.rank % 2)
    quarter = half.split(half.rank % 2)
    members = range(world.size)[world.rank % 2 :: 2][half.rank % 2 :: 2]
    assert quarter.size == len(members)
    assert _sum(quarter, world.rank) == sum(members)
    assert _sum(half, 1) == half.size
    assert _sum(world, 1) == world.size


def test_groups_do_not_wait_for_each_other():
    """Some ranks reduce in their part a different number of times between reductions of all."""
    world = adasum.world()
    part = world.split(world.rank % 2)
    for _ in range(1 + 4 * (world.rank % 2)):
        assert _sum(part, 1) == part.size
    assert _sum(world, 2) == 2 * world.size


def test_groups_in_use_at_once():
    world = adasum.world()
    parts = [world, world.split(world.rank % 2), world.split(world.rank // 2), world.split(0)]
    failures = []

    def use(part, factor):
        for step in range(30):
            # One name in all groups: groups keep their tensors apart.
            got = _sum(part, factor * (step + 1), name=f"step {step}")
            if got != part.size * factor * (step + 1):
                failures.append((factor, step, got))

    threads = [
        threading.Thread(target=use, args=(part, 10**place)) for place, part in enumerate(parts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_in_a_function():
    world = adasum.world()
    part = world.split(world.rank % 2)

    @tf.function
    def both(x):
        of_part = adasum.allreduce(x, "sum", communicator=part)
        return of_part, adasum.allreduce(of_part, "sum")

    of_part, of_all = both(tf.ones([3]))
    np.testing.assert_array_equal(of_part, np.full(3, part.size))
    even, odd = (world.size + 1) // 2, world.size // 2
    np.testing.assert_array_equal(of_all, np.full(3, even**2 + odd**2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"color": 3},
            "Expected an option to be shared_memory, zero_copy, cross_memory or timeline. "
            "Received: color. Pass that, or nothing.",
        ),
        (
            {"shared_memory": "no"},
            "Expected the option shared_memory to be 0 or 1. Received: no. Pass that, or nothing.",
        ),
    ],
)
def test_a_bad_option_of_one_rank_fails_on_all(options, message):
    world = adasum.world()
    last = world.size - 1
    mine = options if world.rank == last else {"shared_memory": False}
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        world.split(0, options=mine)
    if last > 0:
        assert str(caught.value) == f"rank {last}: {message}"
    assert _sum(world, 1) == world.size


def test_a_bad_setting_beside_options_fails_on_all(monkeypatch):
    world = adasum.world()
    if world.rank == 0:
        monkeypatch.setenv("TF_ADASUM_CORES", "none")
    with pytest.raises(ValueError, match="TF_ADASUM_CORES to be a positive number"):
        world.split(0, options={"shared_memory": False})
    assert _sum(world, 1) == world.size


def test_closed_communicator_is_refused():
    world = adasum.world()
    part = world.split(0)
    part.close()
    part.close()
    if world.size > 1:
        try:
            _sum(part, 1)
        except tf.errors.UnavailableError as error:
            assert "closed" in str(error)
        else:
            raise AssertionError("a closed communicator reduced")
    assert _sum(world, 1) == world.size
