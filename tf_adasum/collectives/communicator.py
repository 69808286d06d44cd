"""Ranks and the groups they form."""

import atexit
import os
import threading

import tensorflow as tf

from tf_adasum.collectives import native, world_start
from tf_adasum.collectives.checked_numbers import checked_int
from tf_adasum.collectives.handles import Handles
from tf_adasum.collectives.mailbox import Mailbox
from tf_adasum.collectives.names import VariableNumbers
from tf_adasum.collectives.refusals import is_text, ranks_in_words, refusal, shown, speak_as
from tf_adasum.collectives.unconverted import unconverted

_INT32 = (-(2**31), 2**31 - 1)

_lock = threading.Lock()
_world: "Communicator | None" = None


class Communicator:
    """A group of ranks that reduce together, with one communication thread in each process.

    Ops on one communicator are carried out one at a time, in an order that the ranks agree on by
    the ops' names; ops on different communicators do not wait for each other.

    Example:
        >>> import tf_adasum as adasum
        >>> world = adasum.world()
        >>> halves = world.split(color=world.rank % 2)
        >>> halves.size == (world.size + 1 - world.rank % 2) // 2
        True

    Use `world()` for all ranks and `split` for parts of them.
    """

    def __init__(self, lib_communicator=None):
        if not isinstance(lib_communicator, native.lib.Communicator):
            expected = "what makes a Communicator: world() or the split() of another one"
            raise TypeError(refusal(expected, shown(lib_communicator), "Call one of these."))
        self._lib = lib_communicator
        # What `tf_adasum.allreduce_arrays` does, for this group; of an array or a list of arrays.
        # The library's own function: one of Python around it would take a tenth of a short call.
        self.allreduce_arrays = lib_communicator.allreduce_arrays
        # Of the variables whose initial values this group agreed on, whatever strategy made them.
        self.variable_numbers = VariableNumbers()
        self._handles = Handles(lib_communicator.id)
        # Of the world of several ranks: for messages that nobody waits for.
        self.mailbox: Mailbox | None = None
        # Whether close() was called.
        self.is_closed = False

    @property
    def rank(self) -> int:
        """This process's place in the group, in [0, size)."""
        return self._lib.rank

    @property
    def size(self) -> int:
        """Number of processes in the group."""
        return self._lib.size

    @property
    def local_rank(self) -> int:
        """This process's place among the group's processes on this host."""
        return self._lib.local_rank

    @property
    def local_size(self) -> int:
        """Number of the group's processes on this host."""
        return self._lib.local_size

    @property
    def hosts(self) -> list[list[int]]:
        """The group's ranks on each host, hosts in the order of their lowest rank."""
        return self._lib.hosts

    @property
    def world_ranks(self) -> list[int]:
        """What the world calls the group's ranks, in their order."""
        return self._lib.world_ranks

    def in_words(self, *ranks: int) -> str:
        """Names ranks of the group in a message, by their numbers in the world."""
        numbers = self.world_ranks
        return ranks_in_words(sorted(numbers[rank] for rank in ranks))

    @property
    def instruction_set(self) -> str:
        """What the arithmetic of all ranks uses: the widest that every rank's CPU has."""
        return self._lib.instruction_set

    def handle_on(self, device: str, name: str | None = None) -> tf.Tensor:
        """The resource that ops on this group take as their first input, as `Handles.get`."""
        return self._handles.get(self, device, name)

    def split(
        self,
        color: int | None,
        key: int = 0,
        name: str = "split",
        options: dict[str, object] | None = None,
    ) -> "Communicator | None":
        """Makes one communicator for each color; collective, as MPI_Comm_split.

        Args:
            color: ranks of equal color, an int from 0, end in one group; None for a rank that
                wants none.
            key: orders the ranks of a group; equal keys keep this communicator's order.
            name: equal on all ranks. Threads that split one communicator at the same time need
                names of their own.
            options: settings of the new group that are to differ from those of the environment:
                "shared_memory", whether ranks of a host read each other's memory, "zero_copy",
                whether they read tensors that lie in shared memory there rather than packed,
                "cross_memory", whether they may copy from and to tensors that lie elsewhere, and
                "timeline", the path where timelines go.

        Returns:
            The communicator of this rank's color, or None for color None.

        Raises:
            TypeError: an argument is of another type.
            ValueError: a number is beyond 32 bits, or a color is negative; or, on all ranks, a
                setting of one of them is not what it has to be.
            TimeoutError: if a rank does not take part within TF_ADASUM_TIMEOUT_SECONDS.
            RuntimeError: if a rank has ended or has closed this communicator.

        Example:
            >>> import tf_adasum as adasum
            >>> adasum.world().split(color=None) is None
            True
        """
        # Of NumPy's integers, too.
        color = None if color is None else checked_int("color", color, 0, _INT32[1])
        key = checked_int("key", key, *_INT32)
        if not is_text(name):
            advice = "Pass text that is equal on all ranks."
            raise TypeError(refusal("a str of Unicode as name of a split", shown(name), advice))
        part = self._lib.split(color, key, name, _as_texts({} if options is None else options))
        return None if part is None else Communicator(part)

    def close(self) -> None:
        """Ends this rank's part in the group.

        Operations under way here fail with `UnavailableError`, and so do those that other ranks
        wait in, or come to, unless they close the group too. A communicator that nobody has any
        more closes itself, and tells the others as this does.
        """
        self.is_closed = True
        self._lib.close()

    def __repr__(self) -> str:
        return f"<Communicator rank={self.rank} size={self.size}>"


def _as_texts(options: dict[str, object]) -> dict[str, str]:
    """Checked by the library: a rank that asks for what there is not then tells the others."""
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        expected = "a dict of options by their names"
        raise TypeError(refusal(expected, shown(options), "Pass {'shared_memory': False}, say."))
    return {name: _as_text(value) for name, value in options.items()}


def _as_text(value: object) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(text, int):
        text = str(int(text))
    if not is_text(text):
        advice = "Leave out what is to be as the environment has it."
        raise TypeError(refusal("an option to be a bool or a path", shown(value), advice))
    return text


@unconverted
def world() -> Communicator:
    """The communicator of all ranks; made at the first call, which is collective.

    Under a launcher (`adasumrun`, `mpirun`, `srun`) these are all its ranks. Without one it is
    this process alone, and MPI is not started.

    Returns:
        A `Communicator` that lives as long as the process.

    Raises:
        RuntimeError: if MPI gives less than MPI_THREAD_MULTIPLE or was finalized, if mpi4py uses
            another MPI, if MPI does not know the launcher, or in a process that a rank started.
        ValueError: on all ranks, if a setting of one of them is not what it has to be.

    Example:
        >>> import tf_adasum as adasum
        >>> adasum.world().size
        1
    """
    global _world  # noqa: PLW0603 (the one world)
    if _world is not None:
        return _world  # without the lock, which another thread may hold when a process is forked
    with _lock:
        if _world is None:
            made = Communicator(world_start.connect())
            if made.size > 1:
                made.mailbox = world_start.mailbox()
            _world = made
            speak_as(_world.rank)
            atexit.register(native.lib.shutdown_all)
        return _world


def joined_world() -> Communicator | None:
    """The world if this process has joined it; joins nothing."""
    return _world


@unconverted
def rank() -> int:
    """This process's rank in the world, in [0, size()).

    Example:
        >>> import tf_adasum as adasum
        >>> adasum.rank()  # without a launcher
        0
    """
    return world().rank


@unconverted
def size() -> int:
    """Number of processes in the world.

    Example:
        >>> import tf_adasum as adasum
        >>> adasum.size()  # without a launcher
        1
    """
    return world().size


@unconverted
def local_rank() -> int:
    """This process's rank among those on its host, in [0, local_size()).

    Example:
        >>> import tf_adasum as adasum
        >>> adasum.local_rank()  # without a launcher
        0
    """
    return world().local_rank


@unconverted
def local_size() -> int:
    """Number of processes of the world on this host.

    Example:
        >>> import tf_adasum as adasum
        >>> adasum.local_size()  # without a launcher
        1
    """
    return world().local_size
