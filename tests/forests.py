"""Forests with numbered children, of the size of a batch of trees."""

import numpy as np

from sggnn_tf import tfgnn

RELATIONS = ("child_1", "child_2", "child_3", "child_1_of", "child_2_of", "child_3_of", "self")


def forest(num_nodes, units, seed=0):
    """A forest of random trees (0, 2 or 3 children) with `num_nodes` nodes, and random states."""
    random = np.random.default_rng(seed)
    edges = {relation: ([], []) for relation in RELATIONS}
    queue, made = [], 0
    while made < num_nodes:
        if not queue:
            queue, made = [made], made + 1
            continue
        parent = queue.pop(0)
        children = random.choice([0, 2, 3], p=[0.6, 0.3, 0.1])
        for number in range(1, 1 + min(children, num_nodes - made)):
            for relation, (source, target) in (
                (f"child_{number}", (parent, made)),
                (f"child_{number}_of", (made, parent)),
            ):
                edges[relation][0].append(source)
                edges[relation][1].append(target)
            queue.append(made)
            made += 1
    edges["self"] = (range(num_nodes), range(num_nodes))
    states = random.normal(size=[num_nodes, units]).astype("float32")
    return tfgnn.GraphTensor.from_pieces(
        node_sets={"node": tfgnn.NodeSet.from_fields(sizes=[num_nodes], features={"hidden_state": states})},
        edge_sets={
            relation: tfgnn.EdgeSet.from_fields(
                sizes=[len(source)],
                adjacency=tfgnn.Adjacency.from_indices(
                    ("node", np.array(source, "int32")), ("node", np.array(target, "int32"))
                ),
            )
            for relation, (source, target) in edges.items()
        },
    )
