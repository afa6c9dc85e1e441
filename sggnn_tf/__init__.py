"""Long-range, gated, multi-relational graph neural networks on TF-GNN's GraphTensor, with Keras 3.

    import sggnn_tf
    from sggnn_tf import tfgnn           # TF-GNN itself, importable beside Keras 3
    from sggnn_tf.layers import ...      # Keras 3 layers over GraphTensors
    from sggnn_tf.models import ...      # models with the whole Keras surface
    from sggnn_tf.data import ...        # data sets, batches, records
    from sggnn_tf.tasks import ...       # the paper's two tasks

After this import `tf.keras` is Keras 2 in the process, because TF-GNN needs it; `keras` is Keras 3.
"""

__version__ = "0.1.0"

from sggnn_tf.tfgnn_bridge import tfgnn  # isort: skip - first: it decides what tf.keras is
from sggnn_tf import data, layers, models, tasks
from sggnn_tf.layers import GraphLayer
from sggnn_tf.models import GraphModel, GraphSequential

__all__ = ["GraphLayer", "GraphModel", "GraphSequential", "data", "layers", "models", "tasks", "tfgnn"]
