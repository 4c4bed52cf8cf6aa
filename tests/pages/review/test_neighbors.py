"""The nearest neighbors are those that a search of all pairs finds."""

import torch

from noisebound.data.rows import TensorRows
from noisebound.pages.examples import Neighbors
from training_data import noisy_clouds

VECTORS = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))


def test_they_are_the_nearest_by_angle():
    unit = torch.nn.functional.normalize(VECTORS)
    likeness = unit @ unit.T - 2 * torch.eye(300)
    neighbors = Neighbors(TensorRows(VECTORS))
    for position in (0, 17, 299):
        expected = likeness[position].argsort(descending=True)[:8]
        assert neighbors.nearest(position, 8).tolist() == expected.tolist()


def test_an_example_is_not_its_own_neighbor():
    assert 3 not in Neighbors(TensorRows(VECTORS)).nearest(3, 1000).tolist()
    assert len(Neighbors(TensorRows(VECTORS)).nearest(3, 1000)) == 299


def test_a_vector_of_zeros_has_neighbors_too():
    vectors = VECTORS.clone()
    vectors[4] = 0
    assert len(Neighbors(TensorRows(vectors)).nearest(4, 8)) == 8


def test_without_embeddings_similarity_follows_from_probabilities():
    splits = noisy_clouds()
    probs = torch.full((120, 4), 0.1)
    probs[torch.arange(120), torch.arange(120) % 4] = 0.7
    assert {each % 4 for each in Neighbors.of(splits, probs).nearest(2, 20).tolist()} == {2}
