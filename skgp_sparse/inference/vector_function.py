"""An objective as the optimiser sees it: a function of one vector."""

from copy import copy

from skgp_sparse.inference.objectives import arithmetic
from skgp_sparse.inference.parameters import Parameters


class VectorFunction:
    """Value and gradient wrt the vector of all blocks; an evaluation begins where the last ended.

    Parameters
    ----------
    objective : Objective
    kernel : sklearn kernel
    move_basis : bool
    """

    def __init__(self, objective, kernel, move_basis=False):
        self.objective, self.kernel = objective, kernel
        self.parameters = Parameters(objective.blocks(kernel, move_basis))
        self.inputs, self.inner_state = move_basis, None

    def __call__(self, vector):
        objective, kernel = self.at(vector)
        with arithmetic():
            found = objective.value_and_gradient(kernel, self.inputs, self.inner_state)
        self.inner_state = found.inner_state
        return found.value, self.parameters.pack_gradient(found.gradient)

    def on(self, rows):
        """The same function of other rows, in the same units."""
        other = copy(self)
        other.objective, other.inner_state = self.objective.on(rows), None
        return other

    def at(self, vector):
        """The objective and the kernel at a vector."""
        blocks = self.parameters.unpack(vector)
        kernel = self.kernel.clone_with_theta(blocks.pop("kernel"))
        return self.objective.at(**blocks), kernel
