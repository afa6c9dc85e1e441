"""From a trained model to TF Serving: export, check, server for development, client."""

from sggnn_tf.serving.saved_model import export, export_run
from sggnn_tf.serving.verify import verify

__all__ = ["export", "export_run", "verify"]
