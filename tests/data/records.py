"""Records of the library, and how they are written to a file."""

import tensorflow as tf

from sggnn_tf import tasks
from tests.data.library_codec import LIBRARY
from tests.data.schemas import library_graph

GRAPHS = [library_graph(2 + n % 2, 3, 1 + n % 2, seed=n) for n in range(7)]
RECORDS = [LIBRARY.encode(graph) for graph in GRAPHS]
SOURCES = [("first.tfrecord", 3), ("second.tfrecord", 4)]
RECALL = tasks.ConditionalRecall()


def write(path, records):
    with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
        for record in records:
            writer.write(record)
    return path
