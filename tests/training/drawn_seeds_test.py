"""Datasets that Keras makes and shuffles by a seed that it draws: in one order on all ranks."""

from __future__ import annotations

import contextlib
import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import programs
from tests.training.numbered_files import model_of_ones
from tests.training.replicas import LOCAL, barrier, shared_path, strategy
from tf_adasum.collectives.communicator import world
from tf_adasum.collectives.gathered import gather_json

NUMBER = 30


@pytest.fixture(autouse=True)
def seeds_of_this_rank():
    """Unlike ones; a strategy then gives all ranks one TensorFlow seed, and no other."""
    keras.utils.set_random_seed(1 + world().rank)
    strategy(1)


def of_all(name, values):
    """What every rank has."""
    return gather_json(list(values), world(), f"test {name}")


def check_one_shuffle(name, values):
    """All ranks have the same, in an order that is none of theirs by nature."""
    gathered = of_all(name, values)
    assert gathered == [gathered[0]] * world().size
    assert gathered[0] != sorted(gathered[0])
    return gathered[0]


def images():
    """A folder of images, each of the brightness of its number."""
    folder = shared_path("images")
    if world().rank == 0:
        for number in range(NUMBER):
            os.makedirs(os.path.join(folder, f"class{number % 2}"), exist_ok=True)
            pixels = tf.fill([2, 2, 1], tf.constant(number, tf.uint8))
            name = os.path.join(folder, f"class{number % 2}", f"{number:02}.png")
            tf.io.write_file(name, tf.io.encode_png(pixels))
    barrier()
    return folder


def from_folder(folder, **options):
    return keras.utils.image_dataset_from_directory(
        folder, color_mode="grayscale", image_size=(2, 2), batch_size=6, verbose=False, **options
    )


def to_pairs(data):
    """Brightness to brightness, for a model that counts which it has seen."""
    brightness = data.map(lambda pixels, _: tf.reduce_mean(pixels, [1, 2]))
    return brightness.map(lambda number: (number, number))


def sums():
    return [NUMBER, np.square(np.arange(NUMBER)).sum()]


@pytest.mark.parametrize("num_local", LOCAL)
def test_every_image_of_a_folder_is_seen_once(num_local):
    model = model_of_ones(num_local)
    logs = model.fit(to_pairs(from_folder(images())), verbose=0, epochs=2).history
    assert [logs["count"], logs["squares"]] == [[each] * 2 for each in sums()]


def test_a_folder_has_one_order():
    folder = images()
    check_one_shuffle("folder", from_folder(folder).file_paths)
    unshuffled = from_folder(folder, shuffle=False).file_paths
    assert [path[-6:] for path in unshuffled] == [
        f"{number:02}.png" for number in (*range(0, NUMBER, 2), *range(1, NUMBER, 2))
    ]


def test_every_folder_and_seed_has_another_order():
    set_seed = tf.random.set_seed if world().size > 1 else np.random.seed
    folder, orders = images(), []
    for seed in (1, 2):
        set_seed(seed)
        orders.append(check_one_shuffle(f"folder {seed}", from_folder(folder).file_paths))
        orders.append(check_one_shuffle(f"again {seed}", from_folder(folder).file_paths))
    assert len(set(map(tuple, orders))) == 4
    set_seed(1)
    assert from_folder(folder).file_paths == orders[0]


def test_where_all_is_seeded_the_order_is_that_of_one_process():
    folder = images()
    keras.utils.set_random_seed(7)
    found = from_folder(folder).file_paths
    drawn = np.random.RandomState(7).randint(10**6)
    assert found == from_folder(folder, seed=drawn).file_paths
    check_one_shuffle("seeded", found)


def test_a_rank_that_makes_data_alone_is_told():
    folder = images()
    if world().rank == 1:
        from_folder(folder)
    model = model_of_ones(1)
    told = pytest.raises(ValueError, match="rank 1 shuffles it by seeds of its own")
    with told if world().size > 1 else contextlib.nullcontext():
        model.fit(to_pairs(from_folder(folder)), verbose=0)


UNJOINED = """
import keras, numpy as np
from tf_adasum import keras_hooks
from tf_adasum.collectives.communicator import joined_world
keras_hooks.install()
keras.utils.split_dataset(np.arange(4), left_size=2, shuffle=True)
keras.src.legacy.preprocessing.image.Iterator(4, 2, True, None)._set_index_array()
assert joined_world() is None
"""


def test_what_has_no_strategy_joins_no_world():
    """Ranks would wait for those that make no such data."""
    if world().rank == 0:
        done = programs.run([sys.executable, "-c", UNJOINED], 100)
        assert done.returncode == 0, done.stderr


def test_a_process_alone_draws_by_itself():
    np.random.seed(3)
    drawn = np.random.RandomState(3).randint(10**6)
    folder = images()
    is_own = from_folder(folder).file_paths == from_folder(folder, seed=drawn).file_paths
    assert is_own == (world().size == 1)


@pytest.mark.parametrize("kind", ["split", "timeseries"])
def test_what_is_made_of_arrays(kind):
    rows = np.arange(NUMBER, dtype=np.float32)
    if kind == "split":
        data, _ = keras.utils.split_dataset(rows, left_size=0.5, shuffle=True)
    else:
        data = keras.utils.timeseries_dataset_from_array(rows, None, 2, shuffle=True)
        data = data.unbatch().map(lambda pair: pair[0])
    found = [float(row) for row in data]
    check_one_shuffle(kind, found)
    assert len(set(found)) == {"split": NUMBER // 2, "timeseries": NUMBER - 1}[kind]


def generated(**options):
    rows = np.arange(NUMBER, dtype=np.float32)
    pixels = np.broadcast_to(rows[:, None, None, None], (NUMBER, 2, 2, 1))
    generator = keras.src.legacy.preprocessing.image.ImageDataGenerator()
    return generator.flow(pixels, rows[:, None], batch_size=6, **options)


def numbers_of(batches):
    return [float(row) for index in range(len(batches)) for row in batches[index][1].ravel()]


def test_a_split_is_another_one_each_time():
    rows = np.arange(NUMBER)
    pairs = [keras.utils.split_dataset(rows, left_size=9, shuffle=True) for _ in range(3)]
    splits = [[int(row) for row in data] for data, _ in pairs]
    assert len(set(map(tuple, splits))) == 3
    check_one_shuffle("splits", [row for split in splits for row in split])


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("of_tensorflow", [1, -5])
def test_an_image_generator_has_one_order_an_epoch(seed, of_tensorflow):
    tf.random.set_seed(of_tensorflow)
    batches = generated(seed=seed)
    orders = []
    for epoch in range(2):
        found = numbers_of(batches)
        check_one_shuffle(f"epoch {epoch}", found)
        assert sorted(found) == list(range(NUMBER))
        orders.append(found)
        batches.on_epoch_end()
    assert orders[0] != orders[1]
    assert numbers_of(generated(shuffle=False)) == list(range(NUMBER))


@pytest.mark.parametrize("num_local", LOCAL)
@pytest.mark.parametrize(("seed", "workers"), [(None, 1), (5, 3)])
def test_every_image_of_a_generator_is_seen_once(num_local, seed, workers):
    class Pairs(keras.utils.PyDataset):
        def __init__(self):
            super().__init__(workers=workers)
            self.batches = generated(seed=seed)

        def __len__(self):
            return len(self.batches)

        def __getitem__(self, index):
            return (self.batches[index][1],) * 2

        def on_epoch_end(self):
            self.batches.on_epoch_end()

    logs = model_of_ones(num_local).fit(Pairs(), verbose=0, epochs=4, shuffle=False).history
    assert [logs["count"], logs["squares"]] == [[each] * 4 for each in sums()]


@pytest.mark.parametrize("seed", [None, 5])
def test_the_first_order_of_a_generator_is_that_of_one_process(seed):
    keras.utils.set_random_seed(7)
    found = numbers_of(generated(seed=seed))
    assert found == np.random.RandomState(seed or 7).permutation(NUMBER).tolist()
