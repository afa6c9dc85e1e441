import keras
import numpy as np

from sggnn_tf.training.loss import SmoothedCrossentropy

SCORES = np.random.default_rng(0).normal(size=[6, 5]).astype("float32")
LABELS = np.array([0, 4, 2, 2, 1, 3])


def by_hand(smoothing):
    targets = np.full([6, 5], smoothing / 5)
    targets[np.arange(6), LABELS] += 1 - smoothing
    return -(targets * (SCORES - np.log(np.exp(SCORES).sum(axis=1, keepdims=True)))).sum(axis=1)


def test_it_is_cross_entropy_with_smoothed_labels():
    for smoothing in (0.0, 0.1):
        loss = SmoothedCrossentropy(smoothing, reduction=None)
        np.testing.assert_allclose(loss(LABELS, SCORES), by_hand(smoothing), rtol=1e-5)
        keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)
        one_hot = np.eye(5, dtype="float32")[LABELS]
        mean = SmoothedCrossentropy(smoothing)(LABELS, SCORES)
        np.testing.assert_allclose(mean, keras_loss(one_hot, SCORES), rtol=1e-5)


def test_the_sum_over_the_questions_of_a_graph_in_the_mean_over_graphs():
    weights = np.array([1, 1, 1, 1, 1, 0], "float32")
    found = SmoothedCrossentropy(0.1, scale=1 / 2, reduction="sum")(LABELS, SCORES, sample_weight=weights)
    of_two_graphs = [by_hand(0.1)[:3].sum(), by_hand(0.1)[3:5].sum()]
    np.testing.assert_allclose(found, np.mean(of_two_graphs), rtol=1e-5)


def test_it_comes_back_from_its_configuration():
    loss = SmoothedCrossentropy(0.1, scale=0.5, reduction="sum")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (again.label_smoothing, again.scale, again.reduction) == (0.1, 0.5, "sum")
