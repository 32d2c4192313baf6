"""Position information by hand, by formula, and by an independent computation."""

import math

import pytest
import torch

from selfattn.attention import Alibi, RelativeBias, Rotary, Sinusoidal


class TestSinusoidal:
    @pytest.mark.parametrize("dim", [2, 6, 128])
    def test_by_formula(self, dim, close):
        positions = [0, 1, 5, 49, 97]
        expected = [
            [
                (math.cos if column % 2 else math.sin)(position / 10000 ** ((column - column % 2) / dim))
                for column in range(dim)
            ]
            for position in positions
        ]
        close(Sinusoidal(dim)(torch.tensor(positions)), torch.tensor(expected))


class TestRotary:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
    @pytest.mark.parametrize(("width", "base"), [(2, 10000.0), (6, 10000.0), (10, 500.0)])
    def test_turning_is_a_complex_product(self, width, base, dtype, close):
        x, positions = torch.randn(2, 3, 5, width, dtype=dtype), torch.tensor([0, 1, 2, 17, 400])
        frequencies = torch.tensor([base ** (-2 * k / width) for k in range(width // 2)], dtype=torch.float64)
        turns = torch.polar(torch.ones(5, width // 2).double(), torch.outer(positions.double(), frequencies))
        expected = torch.view_as_real(torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * turns).flatten(-2)
        close(Rotary(width, base).rotate(x, positions), expected.to(dtype))

    def test_scores_depend_on_the_distance_alone(self, close):
        rotary, query, key = Rotary(6), torch.randn(1, 1, 5, 6).double(), torch.randn(1, 1, 7, 6).double()
        i, j = torch.tensor([3, 1, 4, 1, 5]), torch.tensor([9, 2, 6, 5, 3, 5, 8])

        def scores(shift):
            return rotary.rotate(query, i + shift) @ rotary.rotate(key, j + shift).transpose(-2, -1)

        close(scores(1000), scores(0))
        assert not torch.allclose(rotary.rotate(query, i + 1) @ rotary.rotate(key, j).transpose(-2, -1), scores(0))

    def test_half_precision_vectors_turn_by_exact_angles(self, close):
        # bfloat16 holds no 1001: the angle would be wrong by more than half a turn.
        x, positions = torch.randn(1, 1, 1, 2).bfloat16(), torch.tensor([1001])
        turned = Rotary(2).rotate(x, positions)
        assert turned.dtype == torch.bfloat16
        close(turned, Rotary(2).rotate(x.float(), positions).bfloat16())


class TestAlibi:
    def test_slopes_of_the_paper_for_eight_heads(self):
        assert Alibi(8).slopes.tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]

    def test_slopes_for_twelve_heads(self, close):
        # Those of 8 heads, then every other one of those of 16 heads: 2^-0.5, 2^-1.5, ...
        extra = [math.sqrt(1 / 2), math.sqrt(1 / 8), math.sqrt(1 / 32), math.sqrt(1 / 128)]
        close(Alibi(12).slopes, torch.tensor(Alibi(8).slopes.tolist() + extra))

    def test_bias_by_hand(self):
        bias = Alibi(2).bias(torch.tensor([2, 3]), torch.tensor([0, 1, 2, 3]))
        per_step = [-1 / 16, -1 / 256]
        steps = [[2, 1, 0, 1], [3, 2, 1, 0]]
        assert bias.tolist() == [[[slope * step for step in row] for row in steps] for slope in per_step]


class TestRelativeBias:
    def test_buckets_by_hand(self):
        # 4 buckets up to 8: distances 0 and 1 alone, then [2, 4) and 4 or more. The future counts as distance 0.
        bias = RelativeBias(1, num_buckets=4, max_distance=8)
        distances = torch.tensor([5, 1, 0, -1, -2, -3, -4, -7, -8, -1000])
        assert bias.bucket(distances).tolist() == [0, 0, 0, 1, 2, 2, 3, 3, 3, 3]

    def test_buckets_in_both_directions_by_hand(self):
        # 8 buckets: 0 to 3 for keys before or at the query, 4 to 7 for those after it.
        bias = RelativeBias(1, num_buckets=8, max_distance=8, bidirectional=True)
        distances = torch.tensor([-9, -4, -3, -2, -1, 0, 1, 2, 3, 4, 9])
        assert bias.bucket(distances).tolist() == [3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7]

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("bidirectional", [False, True])
    @pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (16, 50), (8, 20), (4, 3)])
    def test_buckets_of_transformers(self, num_buckets, max_distance, bidirectional):
        t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
        distances = torch.arange(-300, 301)
        theirs = t5.T5Attention._relative_position_bucket(distances, bidirectional, num_buckets, max_distance)
        ours = RelativeBias(1, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional)
        assert torch.equal(ours.bucket(distances), theirs)

    def test_each_head_reads_its_own_column(self):
        layer = RelativeBias(3, num_buckets=4, max_distance=8)
        bias = layer.bias(torch.tensor([4, 5]), torch.tensor([0, 1, 4, 5, 6]))
        assert bias.shape == (3, 2, 5)
        buckets = torch.tensor([[3, 2, 0, 0, 0], [3, 3, 1, 0, 0]])
        assert torch.equal(bias, layer.table.weight[buckets].permute(2, 0, 1))
