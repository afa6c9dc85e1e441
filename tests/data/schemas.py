"""Schemas for the tests of data, and a graph that fits each."""

import numpy as np

from sggnn_tf import schema as schemas
from sggnn_tf.graph import Graph

LIBRARY = """
context {
  features { key: "label" value { dtype: DT_INT64 } }
  features { key: "season" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  metadata { extra { key: "num_values/label" value: "3" } }
}
node_sets {
  key: "author"
  value {
    features { key: "age" value { dtype: DT_FLOAT } }
    features { key: "country" value { dtype: DT_INT64 } }
    features { key: "position" value { dtype: DT_FLOAT shape { dim { size: 3 } } } }
    metadata { extra { key: "vocabulary/country" value: "[\\"at\\", \\"cz\\", \\"it\\"]" } }
  }
}
node_sets {
  key: "paper"
  value {
    features { key: "grades" value { dtype: DT_INT64 shape { dim { size: 2 } } } }
    features { key: "title" value { dtype: DT_STRING } }
    features { key: "year" value { dtype: DT_INT32 } }
    metadata { extra { key: "num_values/grades" value: "5" } }
  }
}
node_sets { key: "topic" value { } }
edge_sets {
  key: "writes"
  value {
    source: "author" target: "paper"
    features { key: "share" value { dtype: DT_FLOAT } }
    features { key: "weeks" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  }
}
edge_sets { key: "cites" value { source: "paper" target: "paper" } }
edge_sets { key: "about" value { source: "paper" target: "topic" } }
"""

RAGGED = """
node_sets {
  key: "paper"
  value { features { key: "words" value { dtype: DT_INT64 shape { dim { size: -1 } } } } }
}
"""


def library():
    """Two node sets with features and one without, three edge sets, one with features, and a context."""
    return schemas.from_text(LIBRARY)


def ragged():
    return schemas.from_text(RAGGED)


def library_graph(authors=2, papers=3, topics=1, seed=0):
    """A graph of the library, with some edges of each set if there are nodes for them."""
    random = np.random.default_rng(seed)

    def edges(number, sources, targets):
        number = number if sources and targets else 0
        return random.integers(0, max(sources, 1), number), random.integers(0, max(targets, 1), number)

    writes = edges(4, authors, papers)
    return Graph(
        nodes={
            "author": {
                "age": random.random(authors).astype(np.float32),
                "country": random.integers(0, 3, authors),
                "position": random.random([authors, 3]).astype(np.float32),
            },
            "paper": {
                "grades": random.integers(0, 5, [papers, 2]),
                "title": np.array([f"paper {place}".encode() for place in range(papers)], object),
                "year": random.integers(1900, 2000, papers),
            },
            "topic": topics,
        },
        edges={"writes": writes, "cites": edges(2, papers, papers), "about": edges(3, papers, topics)},
        edge_features={
            "writes": {
                "share": random.random(len(writes[0])).astype(np.float32),
                "weeks": random.random([len(writes[0]), 2]).astype(np.float32),
            }
        },
        context={"label": random.integers(3), "season": random.random(2).astype(np.float32)},
    )
