"""The proofs hold, cover what the cards promise, and fail for a false equation."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import sympy
from false_gradients import (
    LastUseAlone,
    MeanForgotten,
    MissingFactor,
    NoRankOneTerm,
    TurnedForwards,
    doubled,
    pulled_by,
)

from gnomon.spec.adam import adam_step, moments
from gnomon.spec.attention import attention, softmax
from gnomon.spec.capacity import two_layers
from gnomon.spec.card import CardError
from gnomon.spec.catalogue import clauses, order
from gnomon.spec.constants import inverse_root
from gnomon.spec.descent import State, plain_step
from gnomon.spec.embedding import embedding
from gnomon.spec.heads import multi_head_attention
from gnomon.spec.linear import AFFINE, linear
from gnomon.spec.loss import tempered
from gnomon.spec.norms import layer_norm, rms_norm
from gnomon.spec.order import waves
from gnomon.spec.parameters import attention_parameters
from gnomon.spec.proofs import Proof, Scope, proofs
from gnomon.spec.proofs import adam as of_adam
from gnomon.spec.proofs import attention as of_attention
from gnomon.spec.proofs import block as of_block
from gnomon.spec.proofs import capacity as of_capacity
from gnomon.spec.proofs import descent as of_descent
from gnomon.spec.proofs import embedding as of_embedding
from gnomon.spec.proofs import gradient as of_gradient
from gnomon.spec.proofs import heads as of_heads
from gnomon.spec.proofs import linear as of_linear
from gnomon.spec.proofs import loss as of_loss
from gnomon.spec.proofs import masks as of_masks
from gnomon.spec.proofs import order as of_order
from gnomon.spec.proofs import parameters as of_parameters
from gnomon.spec.proofs import reach as of_reach
from gnomon.spec.proofs import rotary as of_rotary
from gnomon.spec.proofs import scale as of_scale
from gnomon.spec.proofs.algebra import AnySize, Family, Matrices, cut, family, nonnegative, reordered, zero
from gnomon.spec.reach import recurrence, step
from gnomon.spec.rotary import turn, turned_pairs
from gnomon.spec.symbolic import Symbolic

ALL = proofs()
PROOFS = pytest.mark.parametrize("proof", ALL, ids=[f"{p.clause.number}-{p.scope.name.lower()}-{p.name}" for p in ALL])


def unnormalised(E, query, key, value, *, scale=None):
    scale = inverse_root(query.shape[-1]) if scale is None else scale
    return E.matmul(E.exp(E.scores(query, key, scale)), value)


def numbered(E, like, rows, columns):
    """Numbers that grow along two axes, as a bias for the scores."""
    if isinstance(like, Family):
        return Family((rows, 1, columns), lambda i, _, j: i * j)
    return np.arange(1, rows + 1)[:, None, None] * np.arange(columns)


def position_leaks_in(E, query, key, value, **options):
    rows = numbered(E, query, query.shape[-2], key.shape[-2])
    bias = rows.swapaxes(-3, -2)
    return attention(E, query, key, value, bias=bias, **options)


def keys_squared(E, query, key, value, **options):
    return attention(E, query, key * key, value, **options)


def scores_doubled(E, query, key, value, **options):
    return attention(E, query, key * 2, value, **options)


def mask_ignored(E, query, key, value, *, allowed):
    return attention(E, query, key, value)


def mask_after_softmax(E, query, key, value, *, allowed):
    return attention(E, query, key, value * allowed[..., None])


def one_in_the_denominator(E, logits):
    return E.exp(logits) / (E.total(E.exp(logits)) + 1)


def one_word_more(E, logits, targets):
    return E.log(E.total(E.exp(logits)) + 1)[..., 0] - logits[..., 0]


def one_mass_more(E, logits, temperature):
    return one_in_the_denominator(E, logits / temperature)


def heated_inversely(E, logits, temperature):
    return tempered(E, logits, 1 / temperature)


def sharpened(E, logits):
    return softmax(E, logits * 2)


def running_sum_not_rescaled(one, other):
    (m1, l1, o1), (m2, l2, o2) = one, other
    m = sympy.Max(m1, m2)
    mass = l2 * sympy.exp(m2 - m)
    return m, l1 + mass, (l1 * o1 + mass * o2) / (l1 + mass)


def bent(E, x, weight, bias=None):
    y = linear(E, x, weight, bias)
    return y + (sympy.HadamardProduct(y, y) if isinstance(E, Matrices) else y * y)


def scores_too_large(query, key, scale):
    return (AnySize() if isinstance(query, Family) else Symbolic()).scores(query, key, scale) * 2


def scores_of_queries(query, key, scale):
    return Matrices().scores(query, query, scale)


def wrong_output_slice(E, x, parameters, **options):
    weight = parameters["output_weight"]
    if isinstance(weight, Family):
        moved = Family(weight.shape, lambda c, r: weight[c, r + 1])
    else:
        moved = np.roll(weight, 1, axis=1)
    return multi_head_attention(E, x, {**parameters, "output_weight": moved}, **options)


def tied_to_head_index(E, x, parameters, *, heads, **options):
    bias = numbered(E, x, heads, x.shape[-2])
    return multi_head_attention(E, x, parameters, heads=heads, bias=bias, **options)


def weights_squared(E, x, parameters, **options):
    return multi_head_attention(E, x, {name: w * w for name, w in parameters.items()}, **options)


def one_projection_less(block):
    return attention_parameters(block) - block.width**2


def queries_for_keys(block):
    return attention_parameters(replace(block, kv_heads=block.heads))


def waves_of_squares(E, turned, arrangement):
    return waves(E, turned * turned, arrangement)


def sign_slip(E, first, second, cosine, sine):
    return first * cosine - second * sine, second * cosine - first * sine


def cosine_doubled(E, first, second, cosine, sine):
    return turned_pairs(E, first, second, cosine * 2, sine)


def angles_of_the_next_pair(E, x, cosine, sine, layout):
    return turn(E, x, cosine, np.roll(sine, 1, axis=-1), layout)


def layout_ignored(E, x, cosine, sine, layout):
    return turn(E, x, cosine, sine, "half")


def only_scaled(E, x, weight, bias=None, *, eps):
    scaled = rms_norm(E, x, weight, eps=eps)
    return scaled if bias is None else scaled + bias


def variance_over_one_less(E, x, weight, bias=None, *, eps):
    width = x.shape[-1]
    return layer_norm(E, x, weight, bias, eps=eps) * sympy.sqrt((width - 1) / width)


def with_epsilon(E, x, *gains, eps):
    return (layer_norm if len(gains) > 1 else rms_norm)(E, x, *gains, eps=eps + 1)


def also_centred(E, x, weight, *, eps):
    return layer_norm(E, x, weight, eps=eps)


def next_row(E, table, ids):
    return embedding(E, table, ids + 1)


def name_leaks_in(E, table, ids):
    rows = embedding(E, table, ids)
    return Family(rows.shape, lambda *at: rows[at] + ids[at[:-1]])


def input_through_the_weight(E, x, weight):
    return E.matmul(recurrence(E, x, weight), weight.swapaxes(-1, -2))


def bent_step(E, state, x, transposed):
    after = step(E, state, x, transposed)
    return after + after * after


def twice_as_far(E, rule, parameter, gradient, state, rate):
    return plain_step(E, rule, parameter, gradient, state, 2 * rate)


def of_length_one(E, rule, parameter, gradient, state, rate):
    return plain_step(E, rule, parameter, gradient / E.sqrt(gradient * gradient), state, rate)


def without_the_root(E, rule, kept):
    return kept.first / kept.second


def mean_of_the_squares(E, rule, gradient, state):
    return moments(E, rule, gradient * gradient, state)


def from_the_second_step(E, rule, parameter, gradient, state, rate):
    return adam_step(E, rule, parameter, gradient, State(1, 0 * gradient, 0 * gradient), rate)


# For every proof the false equations that it must not let pass.
def first_offset_forgotten(E, points, direction, offsets, weights):
    """The first unit bends at zero, wherever the points stand."""
    return two_layers(E, points, direction, [0, *offsets[1:]], weights)


FALSE = {
    of_capacity.any_labels: [{"network": first_offset_forgotten}],
    of_descent.falls_on_every_axis: [{"plain_step": twice_as_far}],
    of_descent.one_factor_a_step: [{"plain_step": twice_as_far}, {"plain_step": of_length_one}],
    of_adam.constant_cancels: [{"direction": without_the_root}, {"moments": mean_of_the_squares}],
    of_adam.constant_stays: [{"plain_step": of_length_one}],
    of_adam.size_of_the_rate: [{"adam_step": from_the_second_step}],
    of_loss.unchanged_by_a_constant: [{"tempered": one_mass_more}],
    of_loss.log_of_the_words: [{"losses": one_word_more}],
    of_loss.ranking_kept: [{"tempered": heated_inversely}],
    of_loss.equal_accuracy_and_unequal_loss: [{"losses": one_word_more}],
    of_loss.equal_loss_and_unequal_accuracy: [{"losses": one_word_more}],
    of_gradient.pairing_of_layers: [{"vjp": pulled_by(TurnedForwards)}, {"jvp": doubled}],
    of_gradient.pairing_of_weights: [
        {"vjp": pulled_by(NoRankOneTerm)},
        {"vjp": pulled_by(MissingFactor)},
        {"jvp": doubled},
    ],
    of_gradient.pairing_of_norms: [{"vjp": pulled_by(MeanForgotten)}, {"jvp": doubled}],
    of_gradient.gradient_of_layers: [{"vjp": pulled_by(LastUseAlone)}],
    of_gradient.gradient_of_weights: [{"vjp": pulled_by(NoRankOneTerm)}],
    of_gradient.gradient_of_attention: [{"vjp": pulled_by(NoRankOneTerm)}, {"vjp": pulled_by(MissingFactor)}],
    of_gradient.gradient_of_norms: [{"vjp": pulled_by(MeanForgotten)}],
    of_gradient.gradient_of_rotations: [{"vjp": pulled_by(TurnedForwards)}],
    of_linear.affine: [{"linear": bent}],
    of_linear.collapse: [{"linear": bent}],
    of_parameters.twice_the_attention: [{"attention": one_projection_less}],
    of_parameters.more_with_fewer_heads: [{"attention": queries_for_keys}],
    of_attention.between: [{"attention": unnormalised}],
    of_attention.keys_and_values: [{"attention": position_leaks_in}],
    of_attention.queries_alone: [{"attention": position_leaks_in}],
    of_attention.both_written_out: [{"attention": position_leaks_in}],
    of_attention.one_vector_for_all_keys: [{"attention": keys_squared}, {"attention": unnormalised}],
    of_attention.any_number_from_a_row: [{"softmax": one_in_the_denominator}],
    of_attention.along_the_null_space: [{"attention": scores_doubled}],
    of_attention.a_direction_always_exists: [{"attention": scores_doubled}],
    of_attention.two_sets_of_weights: [{"attention": scores_doubled}],
    of_attention.removed_without_effect: [{"attention": unnormalised}],
    of_attention.merged_at_any_cut: [{"attention": unnormalised}, {"merge": running_sum_not_rescaled}],
    of_attention.associative_and_commutative: [{"merge": running_sum_not_rescaled}],
    of_scale.at_every_width: [{"scores": scores_too_large}],
    of_scale.scaled_has_variance_one: [{"scores": scores_too_large}],
    of_scale.falls_with_the_scale: [{"softmax": sharpened}, {"softmax": one_in_the_denominator}],
    of_scale.the_jacobian: [{"softmax": sharpened}],
    of_scale.norm_below_trace: [{"softmax": sharpened}, {"softmax": one_in_the_denominator}],
    of_scale.norm_written_out: [{"softmax": sharpened}],
    of_scale.finite_change: [{"softmax": sharpened}],
    of_heads.sum_over_heads: [{"multi_head_attention": wrong_output_slice}],
    of_heads.shared_keys_written_out: [{"multi_head_attention": wrong_output_slice}],
    of_heads.any_order_of_heads: [{"multi_head_attention": tied_to_head_index}],
    of_heads.permuted_written_out: [{"multi_head_attention": tied_to_head_index}],
    of_heads.cancels_in_the_products: [{"scores": scores_of_queries}, {"linear": bent}],
    of_heads.generators_written_out: [{"multi_head_attention": weights_squared}],
    of_heads.rank_at_most_head_width: [{"linear": bent}],
    of_masks.integer_zero: [{"attention": mask_ignored}],
    of_masks.no_future_symbol: [{"attention": mask_ignored}],
    of_masks.remaining_sum_to_one: [{"attention": mask_after_softmax}],
    of_masks.first_sees_only_itself: [{"attention": mask_ignored}],
    of_masks.chunks_are_rows: [{"attention": mask_ignored}],
    of_order.any_order_of_tokens: [{"multi_head_attention": tied_to_head_index}],
    of_order.a_shift_is_a_rotation: [{"waves": waves_of_squares}],
    of_rotary.distance_alone: [{"turned_pairs": sign_slip}, {"turned_pairs": cosine_doubled}],
    of_rotary.whole_heads: [{"turn": angles_of_the_next_pair}],
    of_rotary.a_group: [{"turned_pairs": sign_slip}, {"turned_pairs": cosine_doubled}],
    of_rotary.one_permutation_apart: [{"turn": layout_ignored}],
    of_embedding.one_hot_product: [{"embedding": next_row}, {"embedding": name_leaks_in}],
    of_embedding.any_names: [{"embedding": name_leaks_in}],
    of_block.shift_and_scale: [{"layer_norm": only_scaled}, {"layer_norm": with_epsilon}],
    of_block.scale_of_a_row: [{"rms_norm": with_epsilon}],
    of_block.mean_zero_and_square_one: [{"layer_norm": variance_over_one_less}, {"layer_norm": only_scaled}],
    of_block.a_shift_is_kept: [{"rms_norm": also_centred}],
    of_reach.derivative_is_a_power: [{"recurrence": input_through_the_weight}],
    of_reach.along_an_eigenvector: [{"step": bent_step}],
    of_reach.no_slower_than_the_radius: [{"step": bent_step}],
    of_reach.the_same_at_every_distance: [{"attention": position_leaks_in}, {"attention": unnormalised}],
}


@PROOFS
def test_holds(proof):
    assert proof.run() is True


@PROOFS
def test_can_fail(proof):
    for false in FALSE[proof.run]:
        assert proof.run(**false) is False


def test_every_proof_has_a_false_equation():
    assert set(FALSE) == {p.run for p in ALL}


def test_every_clause_that_says_it_is_proven_is():
    assert {c for c in clauses() if c.proven} <= {p.clause for p in ALL}


def test_every_proof_belongs_to_a_clause_and_stands_in_order():
    numbers = [p.clause.number for p in ALL]
    assert {p.clause for p in ALL} <= set(clauses())
    assert numbers == sorted(numbers, key=order)


def test_the_proofs_of_one_clause():
    assert [p.name for p in proofs(AFFINE)] == ["affine"]
    assert proofs(AFFINE)[0].label == "general"


@pytest.mark.parametrize(("scope", "sizes"), [(Scope.GENERAL, "3 keys"), (Scope.SIZES, "")])
def test_sizes_belong_to_one_scope(scope, sizes):
    with pytest.raises(CardError, match=r"of II\.1\.1 must name sizes where it has them"):
        Proof(AFFINE, scope, sizes, "none", test_the_proofs_of_one_clause)


def test_reading_the_registry_leaves_sympy_alone():
    code = "import sys, gnomon.spec.proofs; assert 'sympy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_zero_tells_nested_sums_apart():
    i, j, n = sympy.symbols("i j n", integer=True)
    f = sympy.Function("f")
    one, other = (sympy.Sum(sympy.exp(sympy.Sum(f(*at), (i, 0, n))), (j, 0, n)) for at in ((i, j), (j, i)))
    renamed = sympy.Sum(sympy.exp(sympy.Sum(f(j, i), (j, 0, n))), (i, 0, n))
    assert zero(one - renamed)
    assert not zero(one - other)
    assert not zero()


def test_the_rules_of_sums_do_what_they_say():
    n, m, j = sympy.symbols("n m j", integer=True, positive=True)
    x, pi = family("x", n), sympy.Function("pi", integer=True)
    permuted = sympy.Sum(x[(pi(j),)], (j, 0, n - 1))
    assert zero(reordered(permuted, pi, n) - sympy.Sum(x[(j,)], (j, 0, n - 1)))
    assert reordered(permuted, pi, m) == permuted
    mixed = sympy.Sum(j * x[(pi(j),)], (j, 0, n - 1))
    assert reordered(mixed, pi, n) == mixed
    parts = sympy.Sum(x[(j,)], (j, 0, n - 1)) + sympy.Sum(x[(j + n,)], (j, 0, m - 1))
    assert zero(cut(sympy.Sum(x[(j,)], (j, 0, n + m - 1)), n, m) - parts)


def test_a_sign_must_be_seen():
    a, x = sympy.Symbol("a", positive=True), sympy.Symbol("x", real=True)
    assert nonnegative(a + x**2)
    assert not nonnegative(a - 1)
    assert not nonnegative()


def test_families_of_other_sizes_do_not_meet():
    n, m = sympy.symbols("n m", integer=True, positive=True)
    with pytest.raises(ValueError, match=r"sizes \['m', 'n'\] meet on one axis"):
        family("x", n) + family("y", m)
    with pytest.raises(ValueError, match="meet on one axis"):
        family("x", 1, n) @ family("y", m, 1)
