"""The mistakes, by what they are about.

Most were made in some implementation of differential privacy; others went unnoticed
by the tests of this package at some time. Those in ``drawn.toml`` were drawn, from all
places where an edit of a fixed list of kinds fits (`benchmarks.mutants._edits`).
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from benchmarks.mutants._runner import Mutant

__all__ = ["MUTANTS"]

REPLAY = "tests/rf/test_record_and_replay.py::test_a_neighbour_looks_the_same"
REPLAYED = "tests/unit/test_replayed_releases.py"
PURITY = "tests/rf/test_purity.py"
EXACT = "tests/property/test_exact_sensitivity.py"
"""Suites that look at all releases, or all strategies, at once."""

BUDGET = "tests/unit/test_budget.py"
EQUAL = "tests/unit/test_equal_totals.py"
GAUSSIAN = "tests/unit/test_gaussian.py"
MECHANISM = "tests/unit/test_mechanism.py"
NOISE = "tests/unit/test_noise.py"
NORM = "tests/unit/test_norm.py"
OVERFLOW = "tests/unit/test_exact_release.py"
QUANTILES = "tests/unit/test_quantiles.py"
SAMPLERS = "tests/statistical/test_samplers.py"
SELECTION = "tests/unit/test_selection.py"
STRATEGY = "tests/unit/test_integer_strategy.py"
THRESHOLDS = "tests/unit/test_discrete_noise.py"
FIRST = f"{BUDGET}::test_nothing_is_drawn_before_it_is_paid_for"
RHO = "tests/unit/test_ledger_in_rho.py"
ANSWERS = "tests/unit/test_ledger_answers.py"
PRICES = f"{RHO}::test_every_kind_of_release_has_its_price"
PRICE = "tests/unit/test_price_in_rho.py"
SMALL_TABLES = f"{PRICE}::test_all_neighbours_of_small_tables_cost_no_more"

DATASETS = "tests/rf/test_datasets.py"
AUDIT = "tests/statistical/test_fit_audit.py"
CHOICES = "tests/statistical/test_selection_audit.py"
FITS = "tests/rf/test_classifiers.py"
PRIVACY = "tests/rf/test_privacy.py"
HELD_OUT = "tests/rf/test_estimated_accuracy.py"
RECIPE_DRAWS = "tests/rf/test_recipes_privacy.py"
RECIPE_SHARES = "tests/rf/test_recipes.py"
SUMS = "tests/rf/test_additive_scores.py"
TREES = "tests/rf/test_selected_trees.py"
TREE_DRAW = "tests/rf/test_tree_selection.py"
ZCDP = "tests/rf/test_private_zcdp.py"


SELECTION_PAYS = "    entry = charge(ledger, entry, relation, noise)\n"
FLIP_PAYS = '    charge(ledger, LedgerEntry(price, released, "permute_and_flip"), '
NOISE_PAYS = "    entry = charge(ledger, entry, relation, noise)\n"
"""How selections and noise pay, in the source."""

CALIBRATION = (
    Mutant(
        "cut points at twice the rate",
        "mmech/quantiles.py",
        "return np.asarray(-rate * np.clip(surplus, 0, most))",
        "return np.asarray(-2 * rate * np.clip(surplus, 0, most))",
        (f"{QUANTILES}::test_all_small_neighbours[add_remove-1]",),
    ),
    Mutant(
        "cut points by shares of the exact number of records",
        "mmech/quantiles.py",
        "        table = surplus_logarithms(below, share, rate, n_bins)\n",
        "        table = surplus_logarithms(\n"
        "            below, max(1, int(below[-1]) // n_bins), rate, n_bins\n"
        "        )\n",
        (f"{QUANTILES}::test_all_small_neighbours[add_remove-1]",),
    ),
    Mutant(
        "half the scale of Laplace noise",
        "mmech/noise/laws.py",
        "check_scale(size / epsilon)",
        "check_scale(size / (2 * epsilon))",
        (f"{MECHANISM}::test_contribution_multiplies_the_sensitivity",),
    ),
    Mutant(
        "half the variance of Gaussian noise",
        "mmech/noise/laws.py",
        "check_variance(squared / (2 * rho))",
        "check_variance(squared / (4 * rho))",
        (f"{GAUSSIAN}::test_measurement_and_records",),
    ),
    Mutant(
        "half the scale of noise for a norm",
        "mmech/noise/laws.py",
        "check_norm_scale(size / epsilon, sizes)",
        "check_norm_scale(size / (2 * epsilon), sizes)",
        (f"{NORM}::test_the_scale_is_sensitivity_over_epsilon",),
    ),
    Mutant(
        "answers that are taken twice",
        "mmech/mechanism.py",
        "return answers.reshape(-1, *exact.shape[1:]), bound",
        "return 2 * answers.reshape(-1, *exact.shape[1:]), 2 * bound",
        (f"{REPLAYED}::test_one_more_or_less_costs_what_is_paid[prefix-epsilon]",),
    ),
    Mutant(
        "records that count twice",
        "mmech_rf/paper/grown.py",
        "np.add.at(table, entries, records.multiplicities)",
        "np.add.at(table, entries, 2 * records.multiplicities)",
        (f"{REPLAY}[batch training, plain, add_remove]",),
    ),
    Mutant(
        "sensitivity of a strategy too small by one",
        "mmech/integer_strategy.py",
        "int(sums.max(initial=0))",
        "int(sums.max(initial=0)) - 1",
        (f"{STRATEGY}::test_brute_force",),
    ),
    Mutant(
        "sensitivity of the first column instead of the largest",
        "mmech/integer_strategy.py",
        "int(sums.max(initial=0))",
        "int(sums[0])",
        (f"{STRATEGY}::test_brute_force",),
    ),
    Mutant(
        "weights of rows left out of the sensitivity",
        "mmech/integer_strategy.py",
        "column_sums(block.matrix, power, block.weight)",
        "column_sums(block.matrix, power)",
        (f"{STRATEGY}::test_brute_force",),
    ),
    Mutant(
        "heights of rows not squared under zCDP",
        "mmech/integer_strategy.py",
        "weights = np.square(weights)",
        "pass",
        (f"{STRATEGY}::test_noise_follows_the_heights_of_rows",),
    ),
    Mutant(
        "weights of rows not rooted in a stack under zCDP",
        "mmech/integer_strategy.py",
        "reals = [ratio * float(block.weight) ** (1 / power)",
        "reals = [ratio * float(block.weight)",
        (f"{STRATEGY}::test_noise_follows_the_heights_of_rows",),
    ),
    Mutant(
        "entries not squared under zCDP",
        "mmech/integer_strategy.py",
        'power = 2 if self.norm == "L2" else 1\n        sums',
        "power = 1\n        sums",
        (f"{STRATEGY}::test_brute_force",),
    ),
    Mutant(
        "entries beyond 2**62 not refused",
        "mmech/integer_strategy.py",
        "if entries >= 2**62:",
        "if False:",
        (f"{EXACT}::test_entries_beyond_64_bits_are_refused",),
    ),
    Mutant(
        "sums and squares that wrap around",
        "mmech/structure/exact.py",
        "if largest >= FITS or _largest(weights) >= FITS:",
        "if False:",
        (
            f"{EXACT}::test_squares_beyond_64_bits",
            f"{EXACT}::test_sensitivity_is_exact_or_refused",
        ),
    ),
    Mutant(
        "answers that wrap around not refused",
        "mmech/mechanism.py",
        "if bound >= MOST_SUMS:\n            raise",
        "if False:\n            raise",
        (f"{OVERFLOW}::test_exact_answers_that_overflow_are_paid_for",),
    ),
    Mutant(
        "squared L2 sensitivity through a rounded root",
        "mmech/release.py",
        "return exact_size(squared)",
        "return exact_size(math.sqrt(squared)) ** 2",
        (f"{OVERFLOW}::test_the_variance_is_the_exact_square",),
    ),
    Mutant(
        "contribution of a record left out",
        "mmech/mechanism.py",
        "size *= self.contribution**self.law.power",
        "size *= 1",
        (f"{MECHANISM}::test_contribution_multiplies_the_sensitivity",),
    ),
    Mutant(
        "size of a record not squared under zCDP",
        "mmech/mechanism.py",
        "size *= self.contribution**self.law.power",
        "size *= self.contribution",
        (f"{GAUSSIAN}::test_neighbours_and_contribution_scale_the_noise",),
    ),
    Mutant(
        "size of a change between neighbours not squared under zCDP",
        "mmech/release.py",
        "factor = relation.factor**law.power",
        "factor = relation.factor",
        (f"{GAUSSIAN}::test_neighbours_and_contribution_scale_the_noise",),
    ),
    Mutant(
        "size of a change between neighbours not squared in expected errors",
        "mmech/mechanism.py",
        "factor = self.relation.factor**self.law.power",
        "factor = self.relation.factor",
        (f"{GAUSSIAN}::test_neighbours_and_contribution_scale_the_noise",),
    ),
)

NEIGHBOURS = (
    Mutant(
        "replacement as an addition: everywhere",
        "mmech/privacy/neighbours.py",
        '(1 if self.neighbours == "add_remove" else 2)',
        "1",
        (f"{NORM}::test_every_change_of_one_person_costs_epsilon_at_most",),
    ),
    Mutant(
        "replacement as an addition: noise",
        "mmech/release.py",
        "factor = relation.factor**law.power",
        "factor = relation.records_per_person**law.power",
        (f"{NORM}::test_every_change_of_one_person_costs_epsilon_at_most",),
    ),
    Mutant(
        "a person of several records as one record: noise",
        "mmech/release.py",
        "factor = relation.factor**law.power",
        "factor = Relation(relation.neighbours).factor**law.power",
        (f"{NORM}::test_every_change_of_one_person_costs_epsilon_at_most",),
    ),
    Mutant(
        "a person of several records as one record: selections",
        "mmech/selection.py",
        "(1 if monotone else 2) * relation.factor)",
        "(1 if monotone else 2) * Relation(relation.neighbours).factor)",
        (f"{SELECTION}::test_the_rate_is_that_of_all_records_of_a_person",),
    ),
    Mutant(
        "replacement as an addition: selections",
        "mmech/selection.py",
        "(1 if monotone else 2) * relation.factor)",
        "(1 if monotone else 2) * relation.records_per_person)",
        (f"{SELECTION}::test_rates",),
    ),
    Mutant(
        "replacement as an addition: draws of trees",
        "mmech_rf/drawn/draw.py",
        "relation=relation,\n        roundings",
        "relation=Relation(),\n        roundings",
        (f"{TREE_DRAW}::test_replacement_and_weights_are_accounted",),
    ),
)

CHARGES = (
    Mutant(
        "releases that are not charged",
        "mmech/release.py",
        "    if ledger is None:\n        return LedgerEntry(",
        "    if ledger is None or ledger.check(\n"
        "        entry.cost, currency=entry.currency, kind=entry.kind\n"
        "    ):\n        return LedgerEntry(",
        (FIRST,),
    ),
    Mutant(
        "the exponential mechanism not charged",
        "mmech/selection.py",
        SELECTION_PAYS,
        "",
        (FIRST,),
    ),
    Mutant(
        "noise drawn before the charge",
        "mmech/release.py",
        NOISE_PAYS,
        f"    law.draw(parameters[0], values.shape, insecure_rng=noise)\n{NOISE_PAYS}",
        (FIRST,),
    ),
    Mutant(
        "exponential mechanism drawn before the charge",
        "mmech/selection.py",
        SELECTION_PAYS,
        f"    weighted_choice([0, 0], insecure_rng=noise)\n{SELECTION_PAYS}",
        (FIRST,),
    ),
    Mutant(
        "permute-and-flip drawn before the charge",
        "mmech/selection.py",
        FLIP_PAYS,
        f"    random_permutation(2, insecure_rng=noise)\n{FLIP_PAYS}",
        (FIRST,),
    ),
    Mutant(
        "tree drawn before the charge",
        "mmech_rf/drawn/draw.py",
        "    pay()\n",
        "    weighted_choice([0, 0], insecure_rng=noise)\n    pay()\n",
        (f"{TREE_DRAW}::test_nothing_is_drawn_before_it_is_paid_for",),
    ),
    Mutant(
        "of a partition the cheapest part counts",
        "mmech/privacy/ledger.py",
        "max(costs.values())",
        "min(costs.values())",
        (f"{BUDGET}::test_of_a_partition_the_dearest_part_counts",),
    ),
    Mutant(
        "the price of the number of records not subtracted",
        "mmech_rf/private/accounted.py",
        "        epsilon -= spent\n",
        "",
        (
            "tests/rf/test_selected_trees.py::test_a_noisy_number_of_records_is_paid_for",
        ),
    ),
    Mutant(
        "every ensemble has all of epsilon",
        "mmech_rf/paper/grown.py",
        "Ensemble(features, forest, epsilon / q)",
        "Ensemble(features, forest, epsilon)",
        (f"{FITS}::test_ensembles_differ_and_share_out_trees_and_budget",),
    ),
    Mutant(
        "releases that do not add up",
        "mmech/privacy/ledger.py",
        "total += own",
        "total = own",
        (f"{BUDGET}::test_three_tenths_hold_three_times_a_tenth",),
    ),
    Mutant(
        "noise taken for a draw of bounded range",
        "mmech/privacy/ledger.py",
        "bounded_range=self.kind in BOUNDED_RANGE",
        "bounded_range=True",
        (PRICES,),
    ),
    Mutant(
        "a draw of bounded range at half its price",
        "mmech/privacy/cost.py",
        "return epsilon**2 / 8",
        "return epsilon**2 / 16",
        (PRICES,),
    ),
    Mutant(
        "pure epsilon at half its price in rho",
        "mmech/privacy/cost.py",
        "return laplace_rho(1, 1 / epsilon)",
        "return laplace_rho(1, 1 / epsilon) / 2",
        (f"{PRICE}::test_no_pure_mechanism_costs_more_than_randomised_response",),
    ),
    Mutant(
        "Laplace noise at its price without the tail beyond the neighbour",
        "mmech/privacy/cost.py",
        "2 * ratio * (1 - power)",
        "2 * ratio",
        (f"{PRICE}::test_the_divergence_per_order_is_largest_at_order_one",),
    ),
    Mutant(
        "several records at the price of one",
        "mmech/integer_strategy.py",
        "laplace_rho(moves * largest, scale)",
        "laplace_rho(largest, scale)",
        (f"{SMALL_TABLES}[cells-add_remove-2]",),
    ),
    Mutant(
        "replacement at the price of an addition",
        "mmech/mechanism.py",
        "return sides * self",
        "return self",
        (f"{SMALL_TABLES}[cells-replace-1]",),
    ),
    Mutant(
        "replaced records that make up for each other in rows of both signs",
        "mmech/mechanism.py",
        "if one_way and self.released.is_nonnegative:",
        "if one_way:",
        (f"{SMALL_TABLES}[signs-replace-1]",),
    ),
    Mutant(
        "replaced records that make up for each other in counts of both signs",
        "mmech/mechanism.py",
        "self.contribution == 1 and not self.signed",
        "self.contribution == 1",
        (f"{PRICE}::test_signs_and_contributions_are_changes_of_any_cells",),
    ),
    Mutant(
        "weights of rows rounded down in their price",
        "mmech/integer_strategy.py",
        "-(-weight >> shift) << shift",
        "(weight >> shift) << shift",
        (f"{PRICE}::test_rows_with_weights_of_their_own",),
    ),
    Mutant(
        "a stated sensitivity rounded down in its price",
        "mmech/release.py",
        "laplace_rho(math.ceil(size)",
        "laplace_rho(math.floor(size)",
        (f"{PRICE}::test_what_a_caller_states_is_taken_for_a_change_of_one_number",),
    ),
    Mutant(
        "the number of records that tables leave out at the price of tables",
        "mmech/tables/release.py",
        "None if plan.drops else mechanism._rho",
        "mechanism._rho",
        (f"{PRICE}::test_records_that_tables_leave_out_have_their_price",),
    ),
    Mutant(
        "a ledger that went over to rho and pays on",
        "mmech/privacy/ledger.py",
        'self._closed = (\n                "this ledger went',
        '_ = (\n                "this ledger went',
        (f"{RHO}::test_the_old_ledger_is_closed",),
    ),
    Mutant(
        "releases without a pure epsilon left out of the sum in epsilon",
        "mmech/privacy/ledger.py",
        "if any(entry.epsilon is None for entry in entries):",
        "if all(entry.epsilon is None for entry in entries):",
        (f"{ANSWERS}::test_one_ledger_answers_in_both_currencies",),
    ),
    Mutant(
        "pure releases left out of both sums where a ledger counts in both ways",
        "mmech/privacy/ledger.py",
        "*pure[split:], *others",
        "*pure[split + 1 :], *others",
        (f"{ANSWERS}::test_some_releases_in_epsilon_and_others_in_rho",),
    ),
    Mutant(
        "releases before a ledger went over to rho forgotten",
        "mmech/privacy/ledger.py",
        "other._entries = entries",
        "other._entries = []",
        (f"{RHO}::test_what_was_released_is_carried_over_at_its_price_in_rho",),
    ),
    Mutant(
        "budgets and mechanisms that can be rewritten",
        "mmech/privacy/guards.py",
        'if not name.startswith("_") and name in vars(self):',
        "if False:",
        (
            f"{BUDGET}::test_a_ledger_cannot_be_rewritten",
            f"{BUDGET}::test_a_mechanism_cannot_be_rewritten",
        ),
    ),
    Mutant(
        "a budget in every forked process",
        "mmech/privacy/guards.py",
        "if os.getpid() != home:",
        "if False:",
        (f"{BUDGET}::test_a_fork_has_no_budget_of_its_own",),
    ),
    Mutant(
        "draws under zCDP with twice their rho",
        "mmech/privacy/cost.py",
        "math.floor(8 * rho * RESOLUTION**2)",
        "math.floor(16 * rho * RESOLUTION**2)",
        (f"{ZCDP}::test_the_window_of_a_draw_never_costs_more_than_rho",),
    ),
    Mutant(
        "sums of all attributes under zCDP with the norm of one",
        "mmech/session.py",
        "squared = Fraction(unit**2 * sum(map(len, as_blocks(groups))))",
        "squared = Fraction(unit**2)",
        (f"{ZCDP}::test_sums_have_the_variance_that_is_stated",),
    ),
)

ENTROPY = (
    Mutant(
        "entropy reused by draws of the same size",
        "mmech/noise/system.py",
        "np.frombuffer(os.urandom(size), dtype=np.uint8)",
        "np.frombuffer(\n                vars(random_bytes).setdefault(str(size), "
        "os.urandom(size)), dtype=np.uint8\n            )",
        (f"{NOISE}::test_default_noise_differs_from_call_to_call",),
    ),
    Mutant(
        "entropy repeated within a draw",
        "mmech/noise/system.py",
        "np.frombuffer(os.urandom(size), dtype=np.uint8)",
        "np.frombuffer((os.urandom(64) * (size // 64 + 1))[:size], dtype=np.uint8)",
        (f"{SAMPLERS}::test_no_two_draws_share_entropy",),
    ),
    Mutant(
        "all classes share their noise",
        "mmech/release.py",
        "own.draw(t, rows.shape, insecure_rng=noise)",
        "own.draw(t, (*rows.shape[:1], 1)[: rows.ndim], insecure_rng=noise)",
        (f"{SAMPLERS}::test_no_two_draws_share_entropy",),
    ),
    Mutant(
        "all rows share their noise",
        "mmech/release.py",
        "own.draw(t, rows.shape, insecure_rng=noise)",
        "own.draw(t, (1, *rows.shape[1:]), insecure_rng=noise)",
        (f"{SAMPLERS}::test_no_two_draws_share_entropy",),
    ),
    Mutant(
        "acceptance of Gaussian proposals from their own entropy",
        "mmech/noise/gaussian.py",
        "words = random_words(size, insecure_rng)",
        "words = proposals.astype(np.uint64) << np.uint64(60)",
        (f"{SAMPLERS}::test_samplers_follow_their_law_and_no_other",),
    ),
)

SAMPLING = (
    Mutant(
        "sets of equal totals that have the whole budget each",
        "mmech/mechanism.py",
        "size = sum(weight for *_, weight in runs)",
        "size = max(weight for *_, weight in runs)",
        (f"{REPLAYED}::test_all_neighbours_of_tables_with_equal_totals",),
    ),
    Mutant(
        "contributions that do not count where totals are equal",
        "mmech/mechanism.py",
        "        size *= self.contribution**self.law.power\n",
        "        size *= 1 if self._sets else self.contribution**self.law.power\n",
        (f"{REPLAYED}::test_contributions_where_totals_are_equal",),
    ),
    Mutant(
        "intervals that end before the last whole number",
        "mmech/tables/noise.py",
        "half = math.ceil(half - 0.5) + self.apart",
        "half = math.floor(half) + 0 * self.apart",
        (f"{EQUAL}::test_intervals_hold_the_noise_that_is_drawn",),
    ),
    Mutant(
        "geometric numbers of negative noise too large by one",
        "mmech/noise/norm.py",
        "np.where(laplace < 0, ~laplace, laplace)",
        "np.where(laplace < 0, -laplace, laplace)",
        (f"{NORM}::test_radii_are_sums_of_geometric_numbers_and_a_shift",),
    ),
    Mutant(
        "one geometric number too few in a radius",
        "mmech/noise/norm.py",
        "scale, (dimension(blocks) + 1, size), insecure_rng",
        "scale, (dimension(blocks), size), insecure_rng",
        (f"{NORM}::test_radii_are_sums_of_geometric_numbers_and_a_shift",),
    ),
    Mutant(
        "totals that are all equally likely",
        "mmech/noise/norm.py",
        "return position_by_weight([weight, most - weight], insecure_rng) == 0",
        "return True",
        (f"{NORM}::test_points_of_balls_are_exactly_uniform",),
    ),
    Mutant(
        "totals that differ without noise on the difference",
        "mmech/release.py",
        "if (own != own[0]).any():",
        "if False:",
        (f"{NORM}::test_totals_that_are_not_equal_are_refused_for_their_price",),
    ),
    Mutant(
        "check of the two bounds of an exponential removed",
        "mmech/noise/thresholds.py",
        "if lo >> (precision - bits) == hi >> (precision - bits):",
        "if lo:",
        (f"{THRESHOLDS}::test_expansions_next_to_a_short_number",),
    ),
    Mutant(
        "check of the two bounds of a digit removed",
        "mmech/noise/thresholds.py",
        "if lowest == highest:",
        "if lo:",
        (f"{THRESHOLDS}::test_expansions_next_to_a_short_number",),
    ),
    Mutant(
        "check of the two bounds of a shift removed",
        "mmech/noise/norm.py",
        "if lowest == highest:",
        "if lowest:",
        (f"{NORM}::test_expansions_next_to_a_short_number",),
    ),
    *(
        Mutant(
            f"odds of permute-and-flip rounded to {bits} bits",
            "mmech/noise/bernoulli.py",
            "bernoulli(partial(exp_bits, exponent), insecure_rng)",
            f"bernoulli(\n        lambda n: exp_bits(exponent, {bits}) << (n - {bits}),"
            " insecure_rng\n    )",
            (f"{SELECTION}::test_coins_are_compared_bit_by_bit",),
        )
        for bits in (8, 16, 53)
    ),
    Mutant(
        "weights of a choice rounded to 24 bits",
        "mmech/noise/weighted.py",
        "    weights = _whole(_weights(gaps[near]))",
        "    weights = _whole(_weights(gaps[near]).astype(np.float32))",
        (f"{SELECTION}::test_weights_are_those_of_exact_arithmetic",),
    ),
    Mutant(
        "small weights of a choice left out",
        "mmech/noise/weighted.py",
        "near = np.flatnonzero(exponents <= NEAR)",
        "near = np.flatnonzero(exponents <= NEAR / 4)",
        (f"{SELECTION}::test_weights_are_those_of_exact_arithmetic",),
    ),
    Mutant(
        "a choice takes the position before on a boundary",
        "mmech/noise/weighted.py",
        "_below(ends[-1], insecure_rng))",
        "_below(ends[-1], insecure_rng) - 1)",
        (f"{SELECTION}::test_positions_are_exactly_proportional",),
    ),
    Mutant(
        "margin of doubles too small for Gaussian noise",
        "mmech/noise/gaussian.py",
        "MARGIN = 2.0**-31",
        "MARGIN = 2.0**-64",
        (f"{THRESHOLDS}::test_the_gaussian_margin_is_decided_exactly",),
    ),
    Mutant(
        "ties of random bytes decided after seven",
        "mmech/_kernels.py",
        "while byte == wanted and depth < 8:",
        "while byte == wanted and depth < 7:",
        (f"{THRESHOLDS}::test_eight_equal_bytes_are_an_event_and_a_ninth_is_not_read",),
    ),
    Mutant(
        "biased integers below a bound",
        "mmech/noise/choice.py",
        "excess = (np.uint64(2**64 - 1) % limit + np.uint64(1)) % limit",
        "excess = np.zeros_like(limit)",
        (
            f"{NOISE}::test_integers_below_reject_the_words_that_would_favour_small_numbers",
        ),
    ),
    Mutant(
        "biased shuffle",
        "mmech/noise/choice.py",
        "    for place, ahead in enumerate(others.tolist()):\n"
        "        other = place + ahead\n",
        "    for place, ahead in enumerate(others.tolist()):\n"
        "        other = (place + 2 * ahead) % n\n",
        (f"{SAMPLERS}::test_samplers_follow_their_law_and_no_other",),
    ),
    Mutant(
        "first of tied classes by key",
        "mmech/noise/choice.py",
        "return (mixed % sizes.astype(np.uint64)).astype(np.int64)",
        "return np.zeros(tied.size, np.int64)",
        (f"{NOISE}::test_keyed_ties_favour_no_column",),
    ),
    Mutant(
        "first of tied classes",
        "mmech/noise/choice.py",
        "draw = partial(integers_below, sizes, insecure_rng=insecure_rng)",
        "draw = partial(np.zeros, tied.size, np.int64)",
        (f"{NOISE}::test_argmax_picks_the_tied_column_that_was_drawn",),
    ),
)

SELECTING = (
    Mutant(
        "selections at twice the rate",
        "mmech/selection.py",
        "return epsilon / ((1 if monotone else 2) * relation.factor)",
        "return 2 * epsilon / ((1 if monotone else 2) * relation.factor)",
        (f"{CHOICES}::test_choices_between_two_candidates",),
    ),
    Mutant(
        "draws of trees at twice the rate",
        "mmech_rf/drawn/draw.py",
        "rate = min(rate, LARGEST_RATE)",
        "rate = min(2 * rate, LARGEST_RATE)",
        (f"{TREE_DRAW}::test_every_addition_of_a_record",),
    ),
    Mutant(
        "draws of further trees at twice the rate",
        "mmech_rf/drawn/draw.py",
        "rate = min(rate, LARGEST_RATE)",
        "rate = min(rate * (1 if unit == 1 else 2), LARGEST_RATE)",
        (f"{AUDIT}::test_boosted_trees[2]",),
    ),
    Mutant(
        "weights of records that depend on others",
        "mmech_rf/drawn/trees.py",
        "return np.asarray(np.minimum(against * UNIT // EXPONENTIALS[0], UNIT))",
        "own = np.asarray(np.minimum(against * UNIT // EXPONENTIALS[0], UNIT))\n"
        "    return own - len(own) % 2",
        (f"{REPLAY}[pure, long boosting, add_remove]",),
    ),
    Mutant(
        "predictions that depend on other records",
        "mmech_rf/drawn/scores.py",
        "return self.whole(codes).argmax(axis=1)",
        "return np.full(len(codes), len(codes) % 2)",
        (f"{TREES}::test_every_addition_of_a_record",),
    ),
    Mutant(
        "scores that fall taken for monotone ones",
        "mmech/selection.py",
        "((1 if monotone else 2) *",
        "(1 *",
        (f"{SELECTION}::test_rates",),
    ),
    Mutant(
        "a window too small: roundings of sums of weights",
        "mmech_rf/drawn/draw.py",
        "roundings=1 + third.most_sums(views.sizes),",
        "roundings=1,",
        (f"{TREE_DRAW}::test_the_rate_leaves_room_for_every_rounding",),
    ),
    Mutant(
        "a window too small: roundings of a third level",
        "mmech_rf/drawn/draw.py",
        "return max(two, three)",
        "return two",
        (f"{TREE_DRAW}::test_the_rate_leaves_room_for_every_rounding",),
    ),
    Mutant(
        "a window too small: units of a rounding",
        "mmech/selection.py",
        "UNITS_PER_ROUNDING = 12",
        "UNITS_PER_ROUNDING = 2",
        (f"{SELECTION}::test_rates",),
    ),
    Mutant(
        "weights of records not clipped",
        "mmech_rf/drawn/trees.py",
        "np.minimum(against * UNIT // EXPONENTIALS[0], UNIT)",
        "against * UNIT // EXPONENTIALS[0]",
        (f"{TREES}::test_weights_are_the_odds_against_in_whole_numbers",),
    ),
    Mutant(
        "largest weight of a record left out: draws",
        "mmech_rf/drawn/grow.py",
        "unit=1 if weights is None else UNIT,",
        "unit=1,",
        (f"{TREES}::test_every_addition_of_a_record",),
    ),
    Mutant(
        "largest weight of a record left out: counts",
        "mmech_rf/drawn/grow.py",
        "unit = 1 if weights is None else UNIT\n",
        "unit = 1\n",
        (f"{TREES}::test_every_addition_of_a_record",),
    ),
    Mutant(
        "largest weight of a record left out: sums",
        "mmech_rf/drawn/scores.py",
        "        GRID * unit,\n",
        "        GRID,\n",
        (f"{TREES}::test_every_addition_of_a_record",),
    ),
    Mutant(
        "records that are predicted right count twice",
        "mmech_rf/drawn/bits.py",
        "right = weights * (predicted == class_codes)",
        "right = 2 * weights * (predicted == class_codes)",
        (f"{TREE_DRAW}::test_kernels_are_their_numpy_twins",),
    ),
    Mutant(
        "score of a further way to split left out of its weight",
        "mmech_rf/_kernels.py",
        "            own[1] = log_prior[v]\n",
        "            own[1] = 0\n",
        (f"{TREE_DRAW}::test_kernels_are_their_numpy_twins",),
    ),
    Mutant(
        "hard votes with the sensitivity of weights",
        "mmech_rf/paper/subsample_aggregate.py",
        'return 2 if self.voting == "hard" else 1',
        "return 1",
        (f"{PRIVACY}::test_hard_voting_reaches_its_sensitivity",),
    ),
    Mutant(
        "shared data with the noise of disjoint data",
        "mmech_rf/paper/laplace_forest.py",
        'ensemble.forest.n_trees if self.data == "shared" else 1',
        "1",
        (f"{PRIVACY}::test_scale_of_the_noise",),
    ),
    Mutant(
        "records assigned by their position",
        "mmech_rf/paper/laplace_forest.py",
        "trees = assign_records(len(codes), ensemble.forest.n_trees)",
        "trees = (0 * codes[:, 0] + 1).cumsum() % ensemble.forest.n_trees",
        (
            f"{PRIVACY}::test_the_assignment_comes_from_the_system_and_one_draw_per_record",
        ),
    ),
    Mutant(
        "held-out records that train as well",
        "mmech_rf/private/shown.py",
        "super()._measure(training)",
        "super()._measure(records)",
        (f"{HELD_OUT}::test_what_is_trained_with_is_not_what_is_counted",),
    ),
    Mutant(
        "one name for the partitions of all fits",
        "mmech_rf/private/shown.py",
        'f"records of fit {random_key(None):x}"',
        '"records of fits"',
        (f"{HELD_OUT}::test_fits_of_other_budgets_cost_what_some_record_pays",),
    ),
    Mutant(
        "sums of attributes in half their unit",
        "mmech_rf/drawn/scores.py",
        "found.append(term.rows().T @ counts)",
        "found.append(2 * term.rows().T @ counts)",
        (f"{SUMS}::test_every_record_is_bounded_in_every_group",),
    ),
    Mutant(
        "sums of positions taken for counts of all records",
        "mmech_rf/drawn/scores.py",
        "n_tables = 1 + sum(not term.by_position for term in self.terms)",
        "n_tables = len(self.sizes)",
        (f"{SUMS}::test_every_record_is_bounded_in_every_group",),
    ),
)

LEAKS = (
    Mutant(
        "exact number of records: roots of a tree",
        "mmech_rf/drawn/draw.py",
        "roots = _roots(views, n_records, n_rows)",
        "roots = _roots(views, class_codes.size, n_rows)",
        (f"{TREE_DRAW}::test_roots_that_are_drawn_follow_the_stated_number",),
    ),
    Mutant(
        "exact number of records: whether trees have a third level",
        "mmech_rf/drawn/draw.py",
        "third = _third_level(views, n_records, n_rows, third_level)",
        "third = _third_level(views, class_codes.size, n_rows, third_level)",
        (f"{TREE_DRAW}::test_roots_that_are_drawn_follow_the_stated_number",),
    ),
    Mutant(
        "forks drawn from all records in place of a node's",
        "mmech_rf/drawn/draw.py",
        "last.of(rows)",
        "last",
        (f"{TREE_DRAW}::test_draws_follow_the_list_of_all_trees",),
    ),
    Mutant(
        "exact number of records: votes of labels",
        "mmech_rf/drawn/grow.py",
        "            counts, labels[known], self.n_records\n",
        "            counts, labels[known], self.codes.shape[0]\n",
        (f"{PURITY}::test_nothing_public_depends_on_records",),
    ),
    Mutant(
        "exact number of records: choice in the file",
        "mmech_rf/drawn/classifier.py",
        "        self._experts = experts\n",
        "        self._experts = experts\n        n_records = float(records.number)\n",
        (f"{PURITY}::test_nothing_public_depends_on_records",),
    ),
    Mutant(
        "exact number of records: an attribute of the fit",
        "mmech_rf/private/base.py",
        "        self.schema_ = schema\n",
        "        self.schema_ = schema\n        self.n_records_in_ = records.number\n",
        (f"{PURITY}::test_nothing_public_depends_on_records",),
    ),
    Mutant(
        "exact number of records: a noisy number",
        "mmech_rf/private/accounted.py",
        "_release_model(records, epsilon, n_records)",
        "_release_model(records, epsilon, max(1.0, records.number))",
        (f"{REPLAY}[pure, a tree, add_remove]",),
    ),
    Mutant(
        "exact counts: votes of leaves",
        "mmech_rf/paper/grown.py",
        "self._random_argmax(c) for c in self.leaf_counts_",
        "self._random_argmax(exact(e)) for e in self.ensembles_",
        (f"{PURITY}::test_nothing_public_depends_on_records",),
    ),
    Mutant(
        "exact counts: smoothing of leaves by their records",
        "mmech_rf/paper/batch_training.py",
        "[max(1.0, math.sqrt(error)) for error in errors]",
        "[1.0 + records.number for _ in errors]",
        (f"{PURITY}::test_nothing_public_depends_on_records",),
    ),
    Mutant(
        "exact counts: votes of leaves of drawn trees",
        "mmech_rf/drawn/grow.py",
        "return self.session.add_noise(counts, cost, what, unit)\n",
        "measured = self.session.add_noise(counts, cost, what, unit)\n"
        "        return replace(measured, values=counts)\n",
        (f"{PURITY}::test_nothing_public_depends_on_records",),
    ),
    Mutant(
        "labels of empty leaves known: drawn trees",
        "mmech_rf/drawn/draw.py",
        "labels.append(np.array(drawn, np.int64))",
        "labels.append(np.where(nodes.scores(way, here).any(axis=1), drawn, 0))",
        (f"{TREE_DRAW}::test_labels_of_empty_leaves_are_drawn",),
    ),
    Mutant(
        "classes of a fit read from the records",
        "mmech_rf/private/base.py",
        "self.classes_ = schema.decode_target(np.arange(schema.n_classes))",
        "self.classes_ = np.unique(y)",
        (f"{PURITY}::test_nothing_public_depends_on_the_type_of_labels",),
    ),
)

FILES = (
    Mutant(
        "lenient csv: more fields than columns",
        "mmech/domain/csv_files.py",
        "if len(fields) != len(header):",
        "if len(fields) < len(header):",
        (f"{DATASETS}::test_lines_that_do_not_parse",),
    ),
    Mutant(
        "lenient csv: fewer fields than columns",
        "mmech/domain/csv_files.py",
        "if len(fields) != len(header):",
        "fields += [''] * (len(header) - len(fields))\n"
        "            if len(fields) != len(header):",
        (f"{DATASETS}::test_lines_that_do_not_parse",),
    ),
    Mutant(
        "lenient csv: text after a closing quote",
        "mmech/domain/csv_files.py",
        "strict=True, delimiter=sep)",
        "strict=False, delimiter=sep)",
        (f"{DATASETS}::test_lines_that_do_not_parse",),
    ),
    Mutant(
        "lenient csv: a quote that swallows the next lines",
        "mmech/domain/csv_files.py",
        "if reader.line_num > number and not multiline:",
        "if False:",
        (f"{DATASETS}::test_a_quote_that_is_not_closed_swallows_no_lines",),
    ),
    Mutant(
        "lenient csv: a column that is there twice",
        "mmech/domain/csv_files.py",
        "if header.count(name) != 1:",
        "if header.count(name) < 1:",
        (f"{DATASETS}::test_load_csv_errors",),
    ),
)

RECIPES = (
    Mutant(
        "labels as if one count changed",
        "mmech/privacy/neighbours.py",
        '(1 if self.neighbours == "add_remove" else 2)',
        '(2 if self.neighbours == "replace" else 1)',
        (
            f"{SELECTION}::test_a_replaced_label_is_a_record_that_leaves_and_one_that_comes",
        ),
    ),
    Mutant(
        "windows of scores left out of the rate",
        "mmech/selection.py",
        "roundings=1, score_unit=window",
        "roundings=1, score_unit=1",
        (f"{SELECTION}::test_rows_follow_priors_and_rates",),
    ),
    Mutant(
        "a border that rounding decides",
        "mmech/_kernels.py",
        "margin = (m + 16) * 2.0**-52",
        "margin = 0.0",
        (f"{SELECTION}::test_numbers_next_to_a_border_are_settled_exactly",),
    ),
    Mutant(
        "bags at the price of the records",
        "mmech_rf/literature/samples.py",
        "return poisson_bag_epsilon(own)",
        "return own",
        (f"{RECIPE_DRAWS}::test_a_random_sample_costs_what_it_says",),
    ),
    Mutant(
        "equal parts of a list",
        "mmech_rf/literature/samples.py",
        "trees = assign_records(n_records, n_trees, insecure_rng=noise)",
        "trees = np.arange(n_records) % n_trees",
        (f"{RECIPE_DRAWS}::test_a_neighbour_looks_the_same_and_is_paid_for",),
    ),
    Mutant(
        "medians of several attributes paid for once",
        "mmech_rf/literature/grow.py",
        "own_cost = cost / (n_candidates + 1)",
        "own_cost = cost / 2",
        (f"{RECIPE_DRAWS}::test_a_neighbour_looks_the_same_and_is_paid_for",),
    ),
    Mutant(
        "nodes that stop by exact numbers of records",
        "mmech_rf/literature/grow.py",
        "return noisy < 2**0.5 * self.schema.n_classes / float(cost)",
        "return counts < 2**0.5 * self.schema.n_classes / float(cost)",
        (f"{RECIPE_DRAWS}::test_nodes_stop_by_noisy_numbers_alone",),
    ),
    Mutant(
        "labels of weighed records as if they weighed one",
        "mmech_rf/literature/leaves.py",
        "flip(row, epsilon / unit,",
        "flip(row, epsilon,",
        (f"{RECIPE_DRAWS}::test_labels_of_leaves_cost_what_they_say",),
    ),
    Mutant(
        "exact tests from random samples",
        "mmech_rf/literature/recipe.py",
        "exact and sampled and not self.unlabelled",
        "False",
        (f"{RECIPE_DRAWS}::test_exact_tests_are_private_with_every_sample_or_refused",),
    ),
    Mutant(
        "weights of records that sum to a constant",
        "mmech_rf/literature/fitting.py",
        "wrong = (predicted != self.class_codes[:, None]).sum(axis=1)",
        "wrong = (predicted != self.class_codes[:, None]).sum(axis=1)\n"
        "        wrong = wrong * 50 // max(1, int(wrong.sum()))",
        (f"{RECIPE_DRAWS}::test_weights_of_one_record_follow_from_it_alone",),
    ),
    Mutant(
        "a label as a count that comes or goes",
        "mmech/privacy/neighbours.py",
        '(1 if self.neighbours == "add_remove" else 2)',
        '(2 if self.neighbours == "replace" else 1)',
        (f"{RECIPE_DRAWS}::test_a_neighbour_looks_the_same_and_is_paid_for",),
    ),
    Mutant(
        "windows of entropy half as long",
        "mmech_rf/literature/scores.py",
        "return table, int(steps.max() - steps.min() + overshoot)",
        "return table, int(steps.max() - steps.min() + overshoot) // 2",
        (f"{RECIPE_SHARES}::test_an_added_record_moves_scores_within_the_window",),
    ),
    Mutant(
        "windows of Gini scores as if they moved by one",
        "mmech_rf/literature/scores.py",
        "(2 ** (GRID + 1) + 2) * unit",
        "2**GRID * unit",
        (f"{RECIPE_SHARES}::test_an_added_record_moves_scores_within_the_window",),
    ),
    Mutant(
        "windows of gain ratios without the node's own entropy",
        "mmech_rf/literature/scores.py",
        "2 * window + 2, ratio=True",
        "window, ratio=True",
        (f"{RECIPE_SHARES}::test_an_added_record_moves_scores_within_the_window",),
    ),
    Mutant(
        "a second ensemble that counts the labels of records",
        "mmech_rf/literature/fitting.py",
        "more = count_leaves(second, public, labels, counts.shape[1], all_of_them)",
        "more = count_leaves(second, self.codes, self.class_codes, counts.shape[1], "
        "np.ones((len(self.codes), n_trees), np.int64))",
        (f"{RECIPE_DRAWS}::test_a_neighbour_looks_the_same_and_is_paid_for",),
    ),
    Mutant(
        "trees that share the records at the price of one",
        "mmech_rf/literature/fitting.py",
        'self.times = n_paid if recipe.records == "all" else 1',
        "self.times = 1",
        (f"{RECIPE_DRAWS}::test_a_neighbour_looks_the_same_and_is_paid_for",),
    ),
    Mutant(
        "trees that are removed at the price of one removal each",
        "mmech_rf/literature/fitting.py",
        "epsilon / forest.n_trees, window=1",
        "epsilon, window=1",
        (f"{RECIPE_DRAWS}::test_one_output_of_trees_that_are_removed",),
    ),
    Mutant(
        "trees that are removed for their exact votes",
        "mmech_rf/literature/fitting.py",
        "if removed and len(kept) > 1:",
        "if right[1] > right[0] and len(kept) > 1:",
        (f"{RECIPE_DRAWS}::test_one_output_of_trees_that_are_removed",),
    ),
    Mutant(
        "nodes that stop at exact sizes whatever they show",
        "mmech_rf/literature/grow.py",
        'if self.recipe.selection == "exact":\n'
        '                if self.recipe.stopping == "size":\n'
        "                    stopped = "
        "self._sizes_of_nodes(tree.size) <= LEAF_RECORDS\n",
        'if self.recipe.stopping == "size":\n'
        "                stopped = "
        "self._sizes_of_nodes(tree.size) <= LEAF_RECORDS\n"
        '            if self.recipe.selection == "exact":\n'
        "                pass\n",
        (f"{RECIPE_DRAWS}::test_nothing_public_depends_on_records",),
    ),
    Mutant(
        "paths that do not end by their support",
        "mmech_rf/literature/grow.py",
        "(left < sizes[attribute]) & bool(levels)",
        "(left < 0)",
        (f"{RECIPE_DRAWS}::test_paths_of_a_tree_end_one_by_one",),
    ),
    Mutant(
        "two outcomes in place of a child per value",
        "mmech_rf/literature/grow.py",
        'self._two_way = self._ordered | (self.recipe.splits == "binary")',
        "self._two_way = np.ones(self._sizes.size, np.bool_)",
        (f"{RECIPE_DRAWS}::test_one_tree_is_that_of_the_source",),
    ),
    Mutant(
        "two levels more than leaves of ten records",
        "mmech_rf/literature/recipe.py",
        "math.ceil(math.log(leaves, branching))))",
        "math.ceil(math.log(leaves, branching))) + 2)",
        (f"{RECIPE_SHARES}::test_levels_follow_from_public_numbers",),
    ),
    Mutant(
        "logarithms to the number of cells of numbers",
        "mmech_rf/literature/recipe.py",
        "else 2\n                    for a",
        "else a.size\n                    for a",
        (f"{RECIPE_SHARES}::test_levels_follow_from_public_numbers",),
    ),
)

TABLE = tomllib.loads(Path(__file__).with_name("drawn.toml").read_text("utf-8"))

DRAWN = tuple(
    Mutant(f"drawn, {kind} {number}", file, find, replace, (test,))
    for kind, rows in TABLE.items()
    for number, (file, find, replace, test) in enumerate(rows, 1)
)

MUTANTS = (
    *CALIBRATION,
    *NEIGHBOURS,
    *CHARGES,
    *ENTROPY,
    *SAMPLING,
    *SELECTING,
    *LEAKS,
    *FILES,
    *RECIPES,
    *DRAWN,
)
