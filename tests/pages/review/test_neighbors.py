"""The nearest neighbors are those that a search of all pairs finds."""

import torch

from noisebound.data.rows import TensorRows
from noisebound.pages.examples import comparable_vectors, nearest
from training_data import noisy_clouds

VECTORS = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))


def test_they_are_the_nearest_by_angle():
    unit = torch.nn.functional.normalize(VECTORS)
    likeness = unit @ unit.T - 2 * torch.eye(300)
    for position in (0, 17, 299):
        expected = likeness[position].argsort(descending=True)[:8]
        assert nearest(TensorRows(VECTORS), position, 8).tolist() == expected.tolist()


def test_an_example_is_not_its_own_neighbor():
    assert 3 not in nearest(TensorRows(VECTORS), 3, 1000).tolist()
    assert len(nearest(TensorRows(VECTORS), 3, 1000)) == 299


def test_a_vector_of_zeros_has_neighbors_too():
    vectors = VECTORS.clone()
    vectors[4] = 0
    assert len(nearest(TensorRows(vectors), 4, 8)) == 8


def test_without_embeddings_similarity_follows_from_probabilities():
    splits = noisy_clouds()
    probs = torch.full((120, 4), 0.1)
    probs[torch.arange(120), torch.arange(120) % 4] = 0.7
    found = nearest(comparable_vectors(splits, probs), 2, 20)
    assert {each % 4 for each in found.tolist()} == {2}
