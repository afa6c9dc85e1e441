"""From examples to batches for `fit`: shuffled, merged, padded to static sizes, with labels and weights."""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.data.examples import Examples, untuned
from sggnn_tf.data.pad import EMPTY
from sggnn_tf.data.padding import MAX_SHAPES, find_padding, in_order
from sggnn_tf.tfgnn_bridge import tfgnn

log = logging.getLogger(__name__)

PREFETCH = 4  # Batches made ahead.


class Batches:
    """Batches of a data set as `(graph, labels, weights)`, ready for `fit(jit_compile=True)`.

    A batch is a scalar `GraphTensor` with a component for each graph, and components of padding after them. Labels
    are taken out of the graph; those of padding are 0 and have the weight 0. All batches have one of a few shapes,
    found from the data (see `padding`).

    Args:
      examples: the graphs. They are all checked first: one that does not fit its schema is an error.
      batch_size: the number of graphs of a batch; the last one of an epoch may have fewer.
      label: the feature to predict, `_readout/FEATURE`, `NODE_SET/FEATURE` or `context/FEATURE`. None: batches are
        graphs only.
      ignore: features to leave out of the batches, as `SET/FEATURE`. XLA takes no strings, and compiles anew for each
        batch with ragged features: such features have to be here for it.
      shuffle_seed: if given, each epoch has an order of its own, which depends on this seed and the number of the epoch
        alone. If not, batches are in the order of the data set.
      max_shapes: the largest number of shapes, and so of compilations by XLA.
      limits: the largest sizes of a graph, by node or edge set. By default there is no limit.
      too_large: what to do with a graph over a limit: `error`, or `skip` it, which is logged and counted in `skipped`.
      replicas: for training on several devices: a batch is so many elements of the data set, each an equal part of
        `batch_size`, and of the last batch perhaps fewer graphs or none. See `distributed`.

    Example:

    ```python
    train = Batches(splits["train"], batch_size=20, shuffle_seed=0)
    valid = Batches(splits["valid"], batch_size=20)
    model.fit(train.dataset(), validation_data=valid.dataset(), epochs=30)
    ```
    """

    def __init__(
        self,
        examples: Examples,
        batch_size: int,
        *,
        label: str | None = "_readout/label",
        ignore: Sequence[str] = (),
        shuffle_seed: int | None = None,
        max_shapes: int = MAX_SHAPES,
        limits: Mapping[str, int] | None = None,
        too_large: Literal["error", "skip"] = "error",
        replicas: int = 1,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it has to be at least 1.")
        if replicas < 1 or batch_size % replicas:
            raise ValueError(
                f"batch_size is {batch_size}; it has to be a multiple of the number of devices, {replicas}."
            )
        self.schema = examples.schema
        self.batch_size = batch_size
        self.replicas = replicas
        self.shuffle_seed = shuffle_seed
        self.label = None if label is None else _label(self.schema, label)
        self.ignore = [_feature(self.schema, each) for each in ignore]
        keep = _within_limits(examples, limits or {}, too_large)
        self.skipped = len(examples) - len(keep)
        self.records, self.sizes = examples.records[keep], examples.sizes[keep]
        self.padding = find_padding(
            self.sizes, examples.sets, batch_size // replicas, shuffled=shuffle_seed is not None, max_shapes=max_shapes
        )

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return math.ceil(len(self.records) / self.batch_size)

    def __str__(self) -> str:
        shapes = len(self.padding.shapes)
        skipped = f"; {self.skipped} graphs skipped as too large" if self.skipped else ""
        return (
            f"{len(self.records)} graphs in {len(self)} batches of {self.batch_size}, of {shapes} "
            f"shape{'s' if shapes > 1 else ''} at most; {self.efficiency():.1%} of the padded edges are real{skipped}"
        )

    def order(self, epoch: int) -> np.ndarray:
        """The places of the examples in an epoch."""
        return self._order(tf.constant(epoch, tf.int64)).numpy()

    def efficiency(self, epoch: int = 0) -> float:
        """Real over padded edges, over an epoch."""
        return self.padding.efficiency(in_order(self.sizes[self.order(epoch)], self.batch_size // self.replicas))

    def dataset(self, first_epoch: int = 0, *, endless: bool = False) -> tf.data.Dataset:
        """The batches; each time the data set is iterated it is the next epoch.

        Args:
          first_epoch: the number of the first epoch, for training that goes on.
          endless: all epochs one after the other, for `fit(steps_per_epoch=len(batches))`. This saves the start of an
            iterator each epoch, about a tenth of a second.
        """
        if self.shuffle_seed is None and not endless:  # All epochs are alike.
            return self._unshuffled
        return self._dataset(first_epoch, endless)

    def distributed(self, strategy: tf.distribute.Strategy, first_epoch: int = 0) -> Any:
        """The batches for `fit` with a model on several devices, a part of a batch for each; all epochs, without end.

        Keras would itself divide a data set among devices, but cannot divide the graphs of a merged batch.

        Args:
          strategy: where the model is; of as many replicas as these batches have parts.
          first_epoch: see `dataset`.
        """
        if strategy.num_replicas_in_sync != self.replicas:
            raise ValueError(f"The batches have {self.replicas} parts for {strategy.num_replicas_in_sync} devices.")

        def parts_of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
            workers = context.num_input_pipelines
            return self._dataset(first_epoch, True, workers, context.input_pipeline_id)

        return strategy.distribute_datasets_from_function(parts_of_worker)

    @functools.cached_property
    def _unshuffled(self) -> tf.data.Dataset:
        return self._dataset(first_epoch=0, endless=False)

    def _dataset(self, first_epoch: int, endless: bool, workers: int = 1, worker: int = 0) -> tf.data.Dataset:
        spec = tfgnn.create_graph_spec_from_schema_pb(self.schema)
        records = tf.constant(self.records, tf.string)
        next_epoch = tf.Variable(first_epoch, dtype=tf.int64, trainable=False)
        epochs = tf.data.Dataset.range(1).map(lambda _: next_epoch.assign_add(1) - 1)
        if endless:
            epochs = tf.data.Dataset.counter(first_epoch)

        @tf.autograph.experimental.do_not_convert  # It would convert TF-GNN too, which takes seconds.
        def batches(epoch: tf.Tensor) -> tf.data.Dataset:
            order = self._order(epoch)
            if self.replicas > 1:  # All parts of the last batch are there, the last ones perhaps empty.
                order = tf.concat(
                    [order, tf.fill([-len(self.records) % self.batch_size], tf.constant(-1, tf.int64))], 0
                )
                order = tf.reshape(order, [-1, workers, self.batch_size // workers])[:, worker]
                order = tf.reshape(order, [-1])
            return tf.data.Dataset.from_tensor_slices(order).batch(self.batch_size // self.replicas)

        @tf.autograph.experimental.do_not_convert
        def element(places: tf.Tensor) -> Any:
            places = tf.boolean_mask(places, places >= 0) if self.replicas > 1 else places
            graph = tfgnn.parse_example(spec, tf.gather(records, places)).merge_batch_to_components()
            return self._with_labels(*self.padding.pad(self._without_ignored(graph)))

        data = epochs.flat_map(batches).map(element, num_parallel_calls=os.cpu_count())
        count = tf.data.INFINITE_CARDINALITY if endless else len(self) * self.replicas // workers
        data = data.apply(tf.data.experimental.assert_cardinality(count)).prefetch(PREFETCH)
        data = untuned(data)
        data.next_epoch = next_epoch  # Variables live as long as someone holds them.
        return data

    def _order(self, epoch: tf.Tensor) -> tf.Tensor:
        places = tf.range(len(self.records), dtype=tf.int64)
        if self.shuffle_seed is None:
            return places
        seed = tf.stack([tf.constant(self.shuffle_seed, tf.int64), epoch])
        return tf.random.experimental.stateless_shuffle(places, seed)

    def _without_ignored(self, graph: Any) -> Any:
        def names(set_name: str) -> list[str]:
            return [feature for each, feature in self.ignore if each == set_name]

        return graph.remove_features(
            context=names(schemas.CONTEXT),
            node_sets={name: names(name) for name in graph.node_sets},
            edge_sets={name: names(name) for name in graph.edge_sets},
        )

    def _with_labels(self, graph: Any, is_real: tf.Tensor) -> Any:
        if self.label is None:
            return graph
        set_name, feature = self.label
        if set_name == schemas.CONTEXT:
            labels = graph.context[feature]
            graph = graph.remove_features(context=[feature])
        else:
            features = graph.node_sets[set_name].get_features_dict()
            labels = features.pop(feature)
            is_real = tfgnn.broadcast_context_to_nodes(graph, set_name, feature_value=is_real)
            features = features or {EMPTY: tf.zeros_like(labels, tf.float32)[:, None][:, :0]}
            graph = graph.replace_features(node_sets={set_name: features})
        return graph, labels, tf.cast(is_real, tf.float32)


def _label(schema: Any, label: str) -> tuple[str, str]:
    """The set and the feature that a label names, if it can be one."""
    set_name = label.rpartition("/")[0]
    if set_name != schemas.CONTEXT and set_name not in schema.node_sets:
        known = [schemas.CONTEXT, *sorted(schema.node_sets)]
        raise ValueError(f"The label {label!r} is of no node set; the schema has {', '.join(known)}.")
    return _feature(schema, label)


def _feature(schema: Any, text: str) -> tuple[str, str]:
    """The set and the feature that a text names."""
    set_name, feature = schemas.split_label(text)
    known = sorted(schemas.feature_set(schema, set_name).features)
    if feature not in known:
        raise ValueError(f"{text!r} is no feature; {set_name!r} has {known}.")
    return set_name, feature


def _within_limits(examples: Examples, limits: Mapping[str, int], too_large: str) -> np.ndarray:
    """The places of the examples that are not too large."""
    names = examples.sets.names
    for name in limits:
        if name not in names:
            raise ValueError(f"There is a limit for {name!r}, but the schema has {', '.join(names)}.")
    limit = np.array([limits.get(name, np.iinfo(np.int64).max) for name in names])
    is_over = np.any(examples.sizes > limit, axis=1)
    if is_over.any():
        place = int(is_over.argmax())
        sets = [i for i in range(len(names)) if examples.sizes[place, i] > limit[i]]
        found = ", ".join(f"{examples.sizes[place, i]} in {names[i]!r} (limit {limit[i]})" for i in sets)
        message = f"{examples.name_of(place)} is too large: {found}"
        if too_large != "skip":
            raise ValueError(f"{message}. Raise the limit, or pass too_large='skip'.")
        log.warning("%d of %d graphs are skipped as too large, the first: %s.", is_over.sum(), len(examples), message)
    if is_over.all():
        raise ValueError("All graphs are too large: nothing is left.")
    return np.flatnonzero(~is_over)
