"""A classifier with one hidden layer, and the sum of its records' clipped gradients."""

from dataclasses import dataclass

import numpy as np

from shuffledp.numerics.arrays import Floats, Integers


@dataclass(frozen=True)
class Network:
    """ReLU hidden layer and softmax output; all parameters are one vector.

    Attributes
    ----------
    inputs, hidden, classes
        Width of each layer.
    """

    inputs: int
    hidden: int
    classes: int

    @property
    def size(self) -> int:
        """Number of parameters."""
        return (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.classes

    def initial(self, rng: np.random.Generator) -> Floats:
        """Draw a start: normal weights of variance 2 over the width before them, biases 0."""
        theta = np.zeros(self.size)
        first, _, second, _ = self._parts(theta)
        first[:] = rng.normal(0.0, np.sqrt(2.0 / self.inputs), first.shape)
        second[:] = rng.normal(0.0, np.sqrt(2.0 / self.hidden), second.shape)
        return theta

    def scores(self, theta: Floats, records: Floats) -> Floats:
        """Logits, shape ``(n, classes)``, of records of shape ``(n, inputs)``."""
        return self._forward(theta, records)[1]

    def loss(self, theta: Floats, records: Floats, labels: Integers) -> Floats:
        """Cross-entropy of each record, shape ``(n,)``.

        Parameters
        ----------
        theta
            Parameters, ``(d,)``.
        records, labels
            ``(n, inputs)`` and ``(n,)``.
        """
        log_shares = _log_softmax(self.scores(theta, records))
        return np.asarray(-log_shares[np.arange(len(labels)), labels])

    def accuracy(self, theta: Floats, records: Floats, labels: Integers) -> float:
        """Share of records whose largest logit is that of their label.

        Parameters
        ----------
        theta
            Parameters, ``(d,)``.
        records, labels
            ``(n, inputs)`` and ``(n,)``.
        """
        return float(np.mean(self.scores(theta, records).argmax(axis=1) == labels))

    def clipped_gradient(
        self, theta: Floats, records: Floats, labels: Integers, clip: float
    ) -> Floats:
        """Sum over records of their loss's gradients, each scaled down to norm ``clip`` at most.

        A record's gradient by a layer's weights is the product of the layer's input and of the
        derivative by its output, and so is its norm: no gradient of a single record is formed.

        Parameters
        ----------
        theta
            Parameters, shape ``(size,)``.
        records, labels
            Shapes ``(n, inputs)`` and ``(n,)``.
        clip
            Positive; inf for no clipping.
        """
        hidden, logits = self._forward(theta, records)
        output = np.exp(_log_softmax(logits))
        output[np.arange(len(labels)), labels] -= 1.0
        second = self._parts(theta)[2]
        inner = (output @ second.T) * (hidden > 0.0)
        squares = _norms(records) * _squares(inner) + _norms(hidden) * _squares(output)
        factor = (1.0 / np.maximum(1.0, np.sqrt(squares) / clip))[:, None]
        inner *= factor
        output *= factor
        gradient = np.empty(self.size)
        for part, value in zip(
            self._parts(gradient),
            (records.T @ inner, inner.sum(axis=0), hidden.T @ output, output.sum(axis=0)),
            strict=True,
        ):
            part[:] = value
        return gradient

    def _parts(self, theta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Views of the weights and biases of both layers."""
        shapes = ((self.inputs, self.hidden), (self.hidden,), (self.hidden, self.classes))
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        first, bias, second, last = np.split(theta, ends)
        return first.reshape(shapes[0]), bias, second.reshape(shapes[2]), last

    def _forward(self, theta: Floats, records: Floats) -> tuple[Floats, Floats]:
        first, bias, second, last = self._parts(theta)
        hidden = np.maximum(records @ first + bias, 0.0)
        return hidden, hidden @ second + last


def _squares(rows: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _norms(inputs: Floats) -> Floats:
    """Squared norm of a layer's input, with the 1 that its bias has."""
    return _squares(inputs) + 1.0


def _log_softmax(logits: Floats) -> Floats:
    centred = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(centred - np.log(np.exp(centred).sum(axis=1, keepdims=True)))
