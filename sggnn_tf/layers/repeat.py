"""Many steps of one update, as one loop in which only states move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.graph_access import check_merged
from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.layers.graph_update import GraphUpdate
from sggnn_tf.layers.relational_update import SteppedNodeSetUpdate
from sggnn_tf.tfgnn_bridge import tfgnn

StepFunction = Callable[[list[tf.Tensor], list[tf.Tensor], Any], list[tf.Tensor]]
"""`step(states, weights, number)`: the new states."""


@keras.saving.register_keras_serializable("sggnn_tf")
class Repeat(GraphLayer):
    """Applies a graph update K times.

    The graph is looked at once; then only states move. With shared weights the steps are one loop, so that XLA
    compiles one step, however many there are.

    Args:
      update: a `GraphUpdate` of node sets, each by a `RelationalNodeSetUpdate` or `RGATNodeSetUpdate`.
      steps: the number K of steps.
      shared: whether all steps share their weights. If not, there are K copies of the update, one after the other.
      unroll: how many steps the body of the loop holds. More is a little faster and takes longer to compile.
      recompute: whether to keep only the states of each step, and run each step again on the way back: less
        memory for more time. For shared weights.

    Call arguments:
      graph: a scalar `GraphTensor` whose node sets have states (`tfgnn.HIDDEN_STATE`).

    Returns:
      The graph with the states after K steps.
    """

    def __init__(
        self,
        update: GraphUpdate,
        steps: int,
        *,
        shared: bool = True,
        unroll: int = 2,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        if steps < 1 or unroll < 1:
            raise ValueError(f"{self.name}: steps={steps} and unroll={unroll} have to be at least 1.")
        if recompute and not shared:
            raise ValueError(f"{self.name}: recompute=True is for steps that share their weights.")
        _check_update(update, self.name)
        self.steps = steps
        self.shared = shared
        self.unroll = unroll
        self.recompute = recompute
        self.updates = [update]
        if not shared:
            config = keras.saving.serialize_keras_object(update)["config"]
            self.updates += [GraphUpdate.from_config(config) for _ in range(steps - 1)]

    def call(self, graph: Any, training: bool | None = None) -> Any:
        check_merged(graph, self.name)
        states = self._states(graph)
        names = sorted(states)
        flat = [states[name] for name in names]
        for first, update in enumerate(self.updates):
            step, weights = self._step_function(update, graph, names, bool(training))
            if self.recompute:
                flat = _recomputed_loop(step, flat, weights, self.steps)
            elif self.shared:
                flat = _loop(step, flat, weights, self.steps, self.unroll)
            else:
                flat = step(flat, weights, first)
        new = dict(zip(names, flat, strict=True))
        return graph.replace_features(
            node_sets={
                name: {**graph.node_sets[name].get_features_dict(), tfgnn.HIDDEN_STATE: new[name]}
                for name in self.updates[0].node_set_updates
            }
        )

    def edge_weights(self, graph: Any) -> list[dict[str, tf.Tensor]]:
        """How much each edge counts in what its receiver reads, in each of the steps: for people to look at.

        Returns:
          For each step, by the name of each edge set, `[edges, heads]`: the weights of the attention; without
          attention, what the edge is multiplied by.
        """
        check_merged(graph, self.name)
        states, found = self._states(graph), []
        for number in range(self.steps):
            layers = dict(self.updates[0 if self.shared else number].node_set_updates)
            prepared = {name: layer.prepare(graph, name, training=False) for name, layer in layers.items()}
            by_relation: dict[str, tf.Tensor] = {}
            for name, layer in layers.items():
                weights = layer.edge_weights(states, name, prepared[name])
                parts = tf.split(weights, prepared[name].edges.edge_sizes)
                by_relation |= dict(zip(layer.relations, parts, strict=True))
            found.append(by_relation)
            states = states | {name: layer.step(states, name, number, prepared[name]) for name, layer in layers.items()}
        return found

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "update": self.updates[0],
            "steps": self.steps,
            "shared": self.shared,
            "unroll": self.unroll,
            "recompute": self.recompute,
        }

    def _states(self, graph: Any) -> dict[str, tf.Tensor]:
        """The states of all node sets that are updated or read."""
        states = {}
        for name, layer in self.updates[0].node_set_updates.items():
            states.update(layer.states(graph, name))
        return states

    def _step_function(
        self, update: GraphUpdate, graph: Any, names: list[str], training: bool
    ) -> tuple[StepFunction, list[tf.Tensor]]:
        """One step as a function of tensors alone, and the tensors that all steps share."""
        layers = dict(update.node_set_updates)
        for layer in layers.values():
            if not layer.built:
                layer.build(graph.spec)
        prepared = {name: layer.prepare(graph, name, training) for name, layer in layers.items()}
        structure = {name: each.weights for name, each in prepared.items()}

        def step(states: list[tf.Tensor], weights: list[tf.Tensor], number: Any) -> list[tf.Tensor]:
            by_name = dict(zip(names, states, strict=True))
            packed = tf.nest.pack_sequence_as(structure, weights)
            new = {
                name: layer.step(by_name, name, number, prepared[name]._replace(weights=packed[name]))
                for name, layer in layers.items()
            }
            return [new.get(name, by_name[name]) for name in names]

        return step, tf.nest.flatten(structure)


def _loop(
    step: StepFunction, states: list[tf.Tensor], weights: list[tf.Tensor], steps: int, unroll: int
) -> list[tf.Tensor]:
    """`steps` steps, `unroll` at a time in the body of a loop, and what is left over after it."""

    def body(number: Any, states: list[tf.Tensor]) -> tuple[Any, list[tf.Tensor]]:
        for offset in range(unroll):
            states = _same_shape(step(states, weights, number + offset), states)
        return number + unroll, states

    rounds = steps // unroll
    if rounds > 1:
        _, states = tf.while_loop(
            lambda number, states: number < rounds * unroll,
            body,
            (tf.constant(0), states),
            maximum_iterations=rounds,
        )
    else:
        rounds = 0
    for number in range(rounds * unroll, steps):
        states = step(states, weights, number)
    return states


def _recomputed_loop(
    step: StepFunction, states: list[tf.Tensor], weights: list[tf.Tensor], steps: int
) -> list[tf.Tensor]:
    """`steps` steps of which only the states are kept; a reverse loop runs each step again for its gradient."""
    is_float = [weight.dtype.is_floating for weight in weights]
    differentiable = [weight for weight, flag in zip(weights, is_float, strict=True) if flag]
    others = [weight for weight, flag in zip(weights, is_float, strict=True) if not flag]

    def all_weights(given: Any) -> list[tf.Tensor]:
        floats, rest = iter(given), iter(others)
        return [next(floats) if flag else next(rest) for flag in is_float]

    @tf.custom_gradient
    def run(*tensors: tf.Tensor) -> Any:
        start, given = list(tensors[: len(states)]), list(tensors[len(states) :])
        kept = [tf.TensorArray(s.dtype, steps, element_shape=s.shape, clear_after_read=False) for s in start]

        def forward(number: Any, now: list[tf.Tensor], kept: list[Any]) -> Any:
            kept = [array.write(number, state) for array, state in zip(kept, now, strict=True)]
            return number + 1, _same_shape(step(now, all_weights(given), number), now), kept

        _, end, kept = tf.while_loop(
            lambda number, *_: number < steps, forward, (tf.constant(0), start, kept), maximum_iterations=steps
        )
        history = [array.stack() for array in kept]

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            def backward(number: Any, to_states: list[tf.Tensor], to_weights: list[tf.Tensor]) -> Any:
                now = [stack[number] for stack in history]
                with tf.GradientTape() as tape:
                    tape.watch([now, given])
                    after = step(now, all_weights(given), number)
                sources = [*now, *given]
                gradients = tape.gradient(after, sources, to_states, unconnected_gradients="zero")
                new_states = _same_shape(gradients[: len(now)], to_states)
                added = [a + b for a, b in zip(to_weights, gradients[len(now) :], strict=True)]
                return number - 1, new_states, added

            zeros = [tf.zeros_like(weight) for weight in given]
            _, to_states, to_weights = tf.while_loop(
                lambda number, *_: number >= 0,
                backward,
                (tf.constant(steps - 1), [tf.convert_to_tensor(value) for value in upstream], zeros),
                maximum_iterations=steps,
            )
            return [*to_states, *to_weights]

        return end, gradient

    result = run(*states, *differentiable)
    return list(result) if isinstance(result, list | tuple) else [result]


def _same_shape(new: list[tf.Tensor], old: list[tf.Tensor]) -> list[tf.Tensor]:
    """A loop's variables keep their shapes; where a size is not known, TensorFlow has to be told so."""
    return [tf.ensure_shape(after, before.shape) for after, before in zip(new, old, strict=True)]


def _check_update(update: Any, reader: str) -> None:
    wrong = None
    if not isinstance(update, GraphUpdate):
        wrong = f"a {type(update).__name__}"
    elif update.deferred_init_callback is not None or update.edge_set_updates or update.context_update is not None:
        wrong = "a GraphUpdate of more than node sets"
    elif not update.node_set_updates:
        wrong = "a GraphUpdate of nothing"
    else:
        others = [n for n, layer in update.node_set_updates.items() if not isinstance(layer, SteppedNodeSetUpdate)]
        if others:
            wrong = f"a GraphUpdate with other updates for {others}"
    if wrong:
        raise ValueError(
            f"{reader} repeats a GraphUpdate of node sets by RelationalNodeSetUpdate or RGATNodeSetUpdate, not {wrong}."
        )
