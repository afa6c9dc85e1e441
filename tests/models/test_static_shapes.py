"""Steps on batches of different sizes: each size is compiled once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.models.static_shapes import is_static, on_batches, on_iterator
from tests import graphs


def batches_of_sizes(*sizes):
    signature = (tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.float32))
    elements = [(np.full(size, place + 1.0, "float32"), np.ones(size, "float32")) for place, size in enumerate(sizes)]
    return tf.data.Dataset.from_generator(lambda: iter(elements), output_signature=signature)


def counted(steps_per_execution=1):
    shapes = []

    def step(data):
        values, weights = data
        shapes.append(values.shape.as_list())
        return tf.reduce_sum(values * weights)

    return on_iterator(step, lambda: steps_per_execution), shapes


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (tf.TensorSpec([2, 3]), True),
        (tf.TensorSpec([]), True),
        (tf.TensorSpec([None, 3]), False),
        (tf.TensorSpec(None), False),
        ((tf.TensorSpec([2]), {"a": tf.TensorSpec([3])}), True),
        ((tf.TensorSpec([2]), {"a": tf.TensorSpec([None])}), False),
        (tf.RaggedTensorSpec([2, None]), False),
    ],
)
def test_a_spec_is_static_if_all_its_sizes_are_known(spec, expected):
    assert is_static(spec) is expected


def test_a_graph_is_static_if_all_its_sizes_are_known():
    spec = graphs.merged([0, 1]).spec
    assert is_static(graphs.batches("graph", padded=True)[0][0].spec)
    assert not is_static(spec.relax(num_nodes=True))
    assert not is_static((spec.relax(num_edges=True), tf.TensorSpec([2])))


def test_each_shape_is_traced_once_with_its_sizes():
    function, shapes = counted()
    data = batches_of_sizes(2, 3, 2, 3, 4)
    for _ in range(3):
        iterator = iter(data)
        assert [float(function(iterator)) for _ in range(5)] == [2, 6, 6, 12, 20]
    assert shapes == [[2], [3], [4]]


def test_the_end_of_data_is_the_end():
    function, _ = counted()
    iterator = iter(batches_of_sizes(2))
    function(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            function(iterator)
    with pytest.raises(StopIteration):
        function(iter(batches_of_sizes()))


def test_several_steps_at_once_return_the_last_and_stop_at_the_end():
    function, shapes = counted(steps_per_execution=2)
    iterator = iter(batches_of_sizes(2, 3, 2))
    assert float(function(iterator)) == 6
    assert float(function(iterator)) == 6
    with pytest.raises(StopIteration):
        function(iterator)
    assert shapes == [[2], [3]]


def test_variables_are_updated_by_each_step():
    total = keras.Variable(0.0)
    function = on_iterator(lambda data: total.assign(total + tf.reduce_sum(data[0])), lambda: 1)
    iterator = iter(batches_of_sizes(2, 3, 2))
    for _ in range(3):
        function(iterator)
    assert float(total.value) == 2 + 6 + 6


def test_data_sets_of_different_structure_share_a_function():
    function = on_iterator(lambda data: tf.reduce_sum(data[0] if isinstance(data, tuple) else data), lambda: 1)
    pairs = batches_of_sizes(2)
    assert float(function(iter(pairs))) == 2
    assert float(function(iter(pairs.map(lambda values, _: values + 1)))) == 4


def test_predictions_of_several_batches_come_one_after_the_other():
    traces = []

    def step(data):
        traces.append(data[0].shape.as_list())
        return {"twice": 2 * data[0]}

    function = on_batches(step)
    batches = [(tf.constant([1.0, 2.0]),), (tf.constant([3.0]),), (tf.constant([4.0, 5.0]),)]
    assert function(batches)["twice"].numpy().tolist() == [2, 4, 6, 8, 10]
    assert function(batches[2:])["twice"].numpy().tolist() == [8, 10]
    assert traces == [[2], [1]]
