from dataclasses import replace
from itertools import chain

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from scipy.sparse import csr_matrix

from noisebound.data import CropAndFlip, Dataset, Loader, Normalization
from noisebound.data.rows import SparseRows
from published_files import some_images

IDENTITY = Normalization(mean=(0.0,), std=(1.0,))


def normalized_batches(data):
    return list(Loader(data, 8, normalization=Normalization.of(data.inputs)).epoch(0))


def rows(n):
    return Dataset(torch.arange(n)[:, None].float(), torch.arange(n) % 3, ("a", "b", "c"))


def images(n):
    inputs = torch.from_numpy(some_images(n, 1, 6, 6))
    return Dataset(inputs, torch.arange(n) % 3, ("a", "b", "c"))


def test_inputs_labels_and_indices_belong_together():
    data = rows(50)
    for batch in Loader(data, 8, normalization=IDENTITY).epoch(0):
        assert torch.equal(batch.x.squeeze(1), batch.indices.float())
        assert torch.equal(batch.y, data.labels[batch.indices])


def test_inputs_are_normalized():
    data = images(30)
    normalization = Normalization.of(data.inputs)
    (batch,) = Loader(data, 30, normalization=normalization, shuffle=False).epoch(0)
    torch.testing.assert_close(batch.x, normalization(data.inputs))
    assert batch.x.dtype == torch.float32


@pytest.mark.parametrize("kind", ["images", "features", "a selection"])
def test_small_inputs_are_normalized_once_and_to_the_same_bits(kind, monkeypatch):
    whole = images(30) if kind == "images" else rows(30)
    data = whole.subset(torch.arange(20).flip(0)) if kind == "a selection" else whole
    once = normalized_batches(data)
    monkeypatch.setattr("noisebound.data.loader._MOST_NORMALIZED_ONCE", 0)
    for ours, theirs in zip(once, normalized_batches(data), strict=True):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.indices, theirs.indices)


@given(
    n=st.integers(1, 60),
    batch_size=st.integers(1, 70),
    world_size=st.integers(1, 7),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 1000),
)
def test_ranks_share_every_epoch_without_overlap_or_loss(
    n, batch_size, world_size, shuffle, seed, epoch
):
    if n < world_size or batch_size < world_size:
        with pytest.raises(ValueError, match="cannot be divided over"):
            Loader(rows(n), batch_size, normalization=IDENTITY, rank=0, world_size=world_size)
        return

    def indices_of(rank, world_size):
        loader = Loader(
            rows(n),
            batch_size,
            normalization=IDENTITY,
            seed=seed,
            shuffle=shuffle,
            rank=rank,
            world_size=world_size,
        )
        batches = [batch.indices.tolist() for batch in loader.epoch(epoch)]
        assert len(batches) == len(loader)
        return batches

    ranks = [indices_of(rank, world_size) for rank in range(world_size)]
    assert len({len(batches) for batches in ranks}) == 1
    steps = list(zip(*ranks, strict=True))
    assert all(part for step in steps for part in step)  # no rank is ever idle
    assert sorted(index for step in steps for part in step for index in part) == list(range(n))
    sizes = [sum(len(part) for part in step) for step in steps]
    assert max(sizes) - min(sizes) <= 1
    if n // -(-n // batch_size) >= world_size:  # no rank would have gone without
        assert max(sizes) <= batch_size
    alone = indices_of(0, 1)
    if len(alone) == len(steps):  # the ranks' parts of a step are what one process would see
        assert [sorted(chain(*step)) for step in steps] == [sorted(batch) for batch in alone]


def test_batch_sizes_count_all_ranks():
    loaders = [
        Loader(rows(23), 5, normalization=IDENTITY, rank=rank, world_size=2) for rank in (0, 1)
    ]
    batches = zip(*(loader.epoch(0) for loader in loaders), strict=True)
    sizes = [sum(len(batch.y) for batch in step) for step in batches]
    assert sizes == loaders[0].batch_sizes() == [4, 5, 4, 5, 5]


def epoch_order(seed, epoch):
    loader = Loader(rows(100), 7, normalization=IDENTITY, seed=seed)
    return torch.cat([batch.indices for batch in loader.epoch(epoch)]).tolist()


def test_any_epoch_can_be_made_again():
    assert epoch_order(5, 9) == epoch_order(5, 9)
    loader = Loader(rows(100), 7, normalization=IDENTITY, seed=5)
    list(loader.epoch(3))  # what was drawn before does not matter
    assert torch.cat([batch.indices for batch in loader.epoch(9)]).tolist() == epoch_order(5, 9)


def test_no_two_epochs_alike():
    orders = {tuple(epoch_order(seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    list(Loader(images(20), 5, normalization=IDENTITY, augmentation=CropAndFlip(1)).epoch(0))
    assert torch.equal(before, torch.get_rng_state())


def test_evaluation_keeps_the_order():
    loader = Loader(rows(20), 6, normalization=IDENTITY, shuffle=False)
    assert torch.cat([batch.indices for batch in loader.epoch(4)]).tolist() == list(range(20))


@pytest.mark.parametrize("world_size", [2, 3])
def test_images_move_alike_however_many_ranks(world_size):
    data = images(31)

    def moved(rank, world_size):
        loader = Loader(
            data,
            10,
            normalization=IDENTITY,
            augmentation=CropAndFlip(2),
            rank=rank,
            world_size=world_size,
        )
        return {
            int(index): x
            for batch in loader.epoch(1)
            for index, x in zip(batch.indices, batch.x, strict=True)
        }

    alone = moved(0, 1)
    divided = {key: x for rank in range(world_size) for key, x in moved(rank, world_size).items()}
    assert divided.keys() == alone.keys()
    assert all(torch.equal(alone[key], divided[key]) for key in alone)
    assert not all(torch.equal(alone[key][0].byte(), data.inputs[key, 0]) for key in alone)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"rank": 2, "world_size": 2}, "rank must be below world_size 2, got 2"),
        ({"augmentation": CropAndFlip()}, "these inputs are features"),
    ],
)
def test_bad_options(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        Loader(**{"data": rows(9), "batch_size": 3, "normalization": IDENTITY} | options)


class TestWeightsAndTargets:
    data = Dataset(
        torch.arange(10.0)[:, None],
        torch.arange(10) % 3,
        ("a", "b", "c"),
        weights=torch.arange(10.0),
        targets=torch.full((10, 3), 1 / 3),
    )

    def test_they_come_with_their_examples(self):
        for batch in Loader(self.data, 4, normalization=IDENTITY).epoch(0):
            assert torch.equal(batch.weights, batch.indices.float())
            assert batch.y.shape == (len(batch.indices), 3)

    def test_the_weight_of_a_batch_counts_all_ranks(self):
        loaders = [
            Loader(self.data, 4, normalization=IDENTITY, rank=rank, world_size=2) for rank in (0, 1)
        ]
        for parts in zip(*(loader.epoch(0) for loader in loaders), strict=True):
            whole = sum(part.weights.sum().item() for part in parts)
            assert [part.total for part in parts] == [whole, whole]

    def test_without_weights_examples_are_counted(self):
        totals = [batch.total for batch in Loader(rows(10), 4, normalization=IDENTITY).epoch(0)]
        assert totals == [3.0, 3.0, 4.0]

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"weights": torch.ones(3)}, r"weights of 10 inputs must have shape \[10\]"),
            ({"weights": -torch.ones(10)}, "not negative"),
            ({"targets": torch.ones(10, 2)}, r"targets of 10 inputs must have shape \[10, 3\]"),
        ],
    )
    def test_of_another_shape(self, changes, complaint):
        with pytest.raises(ValueError, match=complaint):
            replace(self.data, **changes)


def test_sparse_rows_are_dense_per_batch():
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    inputs = SparseRows(csr_matrix(dense.numpy()))
    data = Dataset(inputs, torch.tensor([0, 1, 0]), ("a", "b"))
    loader = Loader(data, 2, normalization=Normalization.identity())
    for batch in loader.epoch(0):
        assert torch.equal(batch.x, dense[batch.indices])
    assert data.subset(torch.tensor([2, 1])).inputs.shape == (2, 2)
    with pytest.raises(TypeError, match=r"in CSR form.*tocsr"):
        SparseRows(csr_matrix(dense.numpy()).tocsc())


IMAGES = torch.from_numpy(some_images(50, 3, 8, 8))


def test_constants_of_bytes_are_exact():
    normalization = Normalization.of(IMAGES)
    values = IMAGES.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(torch.tensor(normalization.mean).double(), values.mean(1))
    torch.testing.assert_close(
        torch.tensor(normalization.std).double(), values.std(1, correction=0)
    )


def test_result_has_mean_zero_and_deviation_one():
    for inputs in (IMAGES, torch.randn(200, 5) * 7 + 3):
        result = Normalization.of(inputs)(inputs)
        assert result.dtype == torch.float32
        channels = result.transpose(0, 1).flatten(1)
        torch.testing.assert_close(channels.mean(1), torch.zeros(len(channels)), atol=1e-5, rtol=0)
        torch.testing.assert_close(channels.std(1, correction=0), torch.ones(len(channels)))


def test_constant_inputs_are_only_shifted():
    constant = torch.full((4, 1, 2, 2), 7, dtype=torch.uint8)
    assert (Normalization.of(constant)(constant) == 0).all()


def test_dead_features_are_only_shifted_where_all_have_one_unit():
    features = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
    features[:, 1] *= 1e-9
    features[:, 2:4] = 7.0
    assert Normalization.of(features).std[1] < 1e-8
    std = Normalization.of(1e-6 * features, least_deviation=1e-4).std
    assert std[1:4] == (1.0, 1.0, 1.0)
    assert all(0 < deviation < 1e-5 for deviation in (std[0], *std[4:]))


def test_other_number_of_channels():
    with pytest.raises(ValueError, match="for 3 channels or features"):
        Normalization.of(IMAGES)(IMAGES[:, :1])


def test_first_used_without_gradients():
    normalization = Normalization.of(IMAGES)
    with torch.inference_mode():
        normalization(IMAGES)
    inputs = IMAGES.float().requires_grad_()
    normalization(inputs).sum().backward()
    assert inputs.grad is not None


def test_inputs_are_left_as_they_were():
    features = torch.randn(10, 3)
    before = features.clone()
    Normalization.of(features)(features)
    assert torch.equal(features, before)


PICTURES = torch.from_numpy(some_images(40, 3, 10, 12))


def one_by_one(images, moves, padding):
    """Move one image after the other, as the definition says."""
    moved = []
    for image, (down, across), flipped in zip(
        images, moves[:, :2].tolist(), moves[:, 2].tolist(), strict=True
    ):
        padded = F.pad(image, (padding,) * 4)
        crop = padded[:, down : down + image.shape[1], across : across + image.shape[2]]
        moved.append(crop.flip(2) if flipped else crop)
    return torch.stack(moved)


@pytest.mark.parametrize("padding", [0, 1, 4])
@pytest.mark.parametrize("flip", [False, True])
def test_batch_is_moved_as_each_image_would_be(padding, flip):
    augmentation = CropAndFlip(padding, flip)
    moves = augmentation.draw(len(PICTURES), torch.Generator().manual_seed(0))
    moved = augmentation.apply(PICTURES, moves)
    assert torch.equal(moved, one_by_one(PICTURES, moves, padding))
    assert moved.dtype == torch.uint8


def test_moves_are_drawn_alike():
    moves = CropAndFlip(padding=2).draw(100_000, torch.Generator().manual_seed(0))
    counts = torch.stack([column.bincount(minlength=5) for column in moves[:, :2].T])
    # within 4 standard deviations of a binomial
    assert ((counts - 20_000).abs() < 4 * (100_000 * 0.2 * 0.8) ** 0.5).all()
    assert abs(moves[:, 2].sum() - 50_000) < 4 * (100_000 / 4) ** 0.5


def test_without_flip_nothing_is_mirrored():
    assert not CropAndFlip(flip=False).draw(100, torch.Generator())[:, 2].any()
