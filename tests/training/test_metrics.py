import pytest

from noisebound.training.metrics import draw_loss


def test_the_loss_falls_to_its_floor():
    rows = draw_loss([2.0, 1.5, 1.0], bound=1.0).split("\n")
    assert rows[0] == " 2.000 ●  "
    assert rows[-1] == " 1.000 ──●"
    assert sum(row.count("●") for row in rows) == 3


@pytest.mark.parametrize("losses", [[1.0], [1.0] * 200, [0.5, 3.0] * 50])
@pytest.mark.parametrize("bound", [None, 1.0, 0.1, 9.0])
def test_a_dot_an_epoch(losses, bound):
    rows = draw_loss(losses, bound).split("\n")
    assert len(rows) == 8
    assert sum(row.count("●") for row in rows) == min(60, len(losses))
    assert ("─" in "".join(rows)) == (bound is not None and (bound != 1.0 or set(losses) != {1.0}))
