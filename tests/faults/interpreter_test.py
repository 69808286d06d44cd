"""Python's signals, threads and lock while a rank is in the library: Ctrl-C, daemon threads."""

import pytest

from tests.faults.ended_programs import launch

# Rank 0 waits for rank 1, which does not come, in communicators that break by it.
INTERRUPTED = """
variable = tf.Variable(tf.ones([3]))

waits = {
    "arrays": lambda part: total(part),
    "eager": lambda part: adasum.allreduce(tf.ones([3]), "sum", part),
    "split": lambda part: part.split(0),
    "gradient": lambda part: tape.gradient(result, variable),
}
for name, wait in waits.items():
    part = world.split(0)
    with tf.GradientTape() as tape:
        result = adasum.allreduce(variable, "sum", part)
    if world.rank == 0:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            wait(part)
        except KeyboardInterrupt:
            print("INTERRUPTED", name)
        try:
            total(part)
        except RuntimeError as error:
            print("BROKEN" if "can't be used any more" in str(error) else error)
    assert total() == world.size
    part.close()
"""


def test_ctrl_c_ends_a_wait(tmp_path):
    said = launch(tmp_path, INTERRUPTED).splitlines()
    waits = ("arrays", "eager", "split", "gradient")
    assert [line for line in said if line.startswith("INTERRUPTED")] == [
        f"INTERRUPTED {name}" for name in waits
    ], said
    assert said.count("BROKEN") == 4


# SIGINT while the main thread waits, and carries out what another thread waits for, or the other
# way round. Then SIGTERM behind a SIGINT, for which the program has handlers.
SIGNALS = """
def send(after, number):
    threading.Timer(after, os.kill, (os.getpid(), number)).start()

def wait_for_the_other(part):
    try:
        total(part, "other")
    except RuntimeError as error:
        others.append(type(error).__name__)

others = []
spare = world.split(0)
for main_is_first in (True, False) * 2:
    part = world.split(0)
    if world.rank == 0:
        other = threading.Timer(0.3 if main_is_first else 0, wait_for_the_other, [part])
        other.start()
        time.sleep(0 if main_is_first else 0.3)
        send(0.7, signal.SIGINT)
        try:
            total(part, "main")
        except KeyboardInterrupt:
            print("INTERRUPTED")
        other.join()
    # Nothing is left of the signal.
    assert total(spare) == world.size

if world.rank == 0:
    def end(*_):
        raise SystemExit(3)
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, end)
    send(0.3, signal.SIGINT)
    send(0.8, signal.SIGTERM)
else:
    time.sleep(2)
try:
    total()
    time.sleep(0.5)
except SystemExit:
    print("ENDED", *others)
assert total() == world.size
"""


@pytest.mark.long
def test_signals_are_the_main_threads(tmp_path):
    said = launch(tmp_path, SIGNALS).splitlines()
    assert said.count("INTERRUPTED") == 4, said
    assert said.count("ENDED" + 4 * " RuntimeError") == 1, said


# Rank 0 ends while daemon threads of it are in the library, and rank 1 goes on for a while.
LOOPING = """
def loop():
    while True:
        adasum.simulate([np.ones(1000), np.ones(1000)])

if world.rank == 0:
    for _ in range(4):
        threading.Thread(target=loop, daemon=True).start()
else:
    time.sleep(2)
    print("RIGHT", flush=True)
"""


def test_daemon_threads_in_the_library_do_not_abort_the_end(tmp_path):
    assert "RIGHT" in launch(tmp_path, LOOPING).splitlines()


# As programs show an exception that they go on after.
SHOWING = """
try:
    raise KeyError("caught")
except KeyError:
    sys.excepthook(*sys.exc_info())
assert total() == world.size
print("RIGHT", flush=True)
"""


@pytest.mark.long
def test_an_exception_that_is_caught_and_shown_ends_no_job(tmp_path):
    assert launch(tmp_path, SHOWING).splitlines().count("RIGHT") == 2


# A thread of rank 0 keeps the interpreter's lock for longer than a wait may take, while the main
# thread is in an exchange.
KEEPING = """
import ctypes
keep = ctypes.PyDLL(None).sleep
total()
if world.rank == 0:
    threading.Timer(0.5, keep, [20]).start()
else:
    time.sleep(2)
array = np.ones(10**6)
adasum.allreduce_arrays(array, "sum")
assert array[0] == 2
print("RIGHT", flush=True)
"""


@pytest.mark.long
def test_an_exchange_needs_no_lock_of_the_interpreter(tmp_path):
    said = launch(tmp_path, KEEPING, TF_ADASUM_TIMEOUT_SECONDS="8").splitlines()
    assert said.count("RIGHT") == 2
