"""The file that an interrupted training goes on from.

HDF5, with
* `header`: bytes of JSON, an object with "format" and "version" (below), "num_replicas" N, the
  "counts" of each rank (not in older files), "seeds", the copies of the state of `keras.random` on
  rank 0, "optimizers" (not in older files), the numbers of the weights that each is built for,
  "optimizer_names" (not in older files), what the callback says of the training ("epoch", "batch",
  "data"), and "state", "metrics" and "residuals": for each variable its path, dtype, shape,
  "is_per_replica", and "crc32" of its bytes (not in older files);
* `state/0`, `state/1`, .., `metrics/0`, .. and so on: the values in that order. A variable that is
  not per replica has its shape; one that is has a dimension of N in front, in the order of the
  replicas. Dtypes that NumPy has not (bfloat16) are kept as unsigned integers of their size.

A file under its name is complete: it is written under another one, brought to the disk and renamed.
What has changed in it since is found: HDF5 keeps a checksum of the header (Fletcher's, by blocks).
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import h5py
import numpy as np
import tensorflow as tf

from tf_adasum.callbacks.replaced_file import ReplacedFile
from tf_adasum.callbacks.replica_state import Value

FORMAT = "tf_adasum training"
VERSION = 1
GROUPS = ("state", "metrics", "residuals")
_NUMPY_KINDS = "biufc"


class TrainingWriter:
    """Writes a file value by value; `finish` gives it its name, `abandon` leaves the old one.

    Args:
        path: the file's name.

    Raises:
        OSError: by each method, if the file can't be written.
    """

    def __init__(self, path: str):
        self._target = ReplacedFile(path)
        self._file = h5py.File(self._target, "w")
        self._listed: dict[str, list[dict[str, Any]]] = {group: [] for group in GROUPS}

    def add(self, group: str, path: str, value: Value) -> None:
        """Appends a variable's value to one of `GROUPS`."""
        listed, array = self._listed[group], value.array
        name = f"{group}/{len(listed)}"
        shape = array.shape[1:] if value.is_per_replica else array.shape
        listed.append(
            {
                "path": path,
                "dtype": tf.as_dtype(array.dtype).name,
                "shape": list(shape),
                "is_per_replica": value.is_per_replica,
                "crc32": _crc32(array),
            }
        )
        if array.dtype.kind not in _NUMPY_KINDS:
            array = array.view(f"u{array.dtype.itemsize}")
        self._file.create_dataset(name, data=array)
        self._target.check()

    def finish(self, header: dict[str, Any]) -> None:
        """Completes the file and puts it in the place of the one before."""
        header = {"format": FORMAT, "version": VERSION, **header, **self._listed}
        encoded = np.frombuffer(json.dumps(header).encode(), np.uint8)
        self._file.create_dataset("header", data=encoded, fletcher32=True)
        self._file.close()
        self._target.replace()

    def abandon(self) -> None:
        """Removes what was written."""
        self._file.close()
        self._target.abandon()


class TrainingReader:
    """Reads a file value by value.

    Args:
        path: the file's name.

    Attributes:
        header: as the module says.

    Raises:
        OSError: there is no such file, or it is none of this format.
        ValueError, TypeError, KeyError or RuntimeError: what it holds is damaged.
    """

    def __init__(self, path: str):
        self._file = h5py.File(path, "r")
        try:
            self.header = self._read_header()
        except Exception:
            self._file.close()
            raise

    def _read_header(self) -> dict[str, Any]:
        stored = self._file.get("header")
        header = json.loads(stored[()].tobytes()) if stored is not None else {}
        is_header = isinstance(header, dict)
        if not is_header or (header.get("format"), header.get("version")) != (FORMAT, VERSION):
            raise OSError(f"no file of {FORMAT!r}, version {VERSION}")
        return header

    def value(self, group: str, number: int) -> Value:
        """Returns the value of the variable with that number in one of `GROUPS`.

        Raises:
            OSError: it is not of the shape that the header tells, or not what was saved; what h5py
                raises, too.
        """
        listed = self.header[group][number]
        array = np.asarray(self._file[f"{group}/{number}"][()])
        rows = [self.header["num_replicas"]] if listed["is_per_replica"] else []
        if list(array.shape) != rows + listed["shape"]:
            raise OSError(f"a value of shape {list(array.shape)} for {listed['path']!r}")
        if "crc32" in listed and _crc32(array) != listed["crc32"]:
            raise OSError(f"other values of {listed['path']!r} than were saved")
        dtype = tf.as_dtype(listed["dtype"]).as_numpy_dtype
        if array.dtype != dtype:
            array = array.view(dtype)
        return Value(array, listed["is_per_replica"])

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _crc32(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)
