"""When, and with whom, replicas meet: what `wrap(optimizer, sync=...)` takes, one file each."""

from tf_adasum.optimizers.sync.deadline import Deadline
from tf_adasum.optimizers.sync.group_averaging import GroupAveraging
from tf_adasum.optimizers.sync.lazy import Lazy
from tf_adasum.optimizers.sync.sync import Sync

__all__ = ["Deadline", "GroupAveraging", "Lazy", "Sync"]
