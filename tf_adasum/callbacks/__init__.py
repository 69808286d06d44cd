"""Keras callbacks, one file each."""

from tf_adasum import horovod_names
from tf_adasum.callbacks.backup_and_restore import BackupAndRestore
from tf_adasum.callbacks.learning_rate_warmup import LearningRateWarmup
from tf_adasum.callbacks.orthogonality_logger import OrthogonalityLogger

__all__ = ["BackupAndRestore", "LearningRateWarmup", "OrthogonalityLogger"]

__getattr__ = horovod_names.refusing(__name__, horovod_names.OF_CALLBACKS)
