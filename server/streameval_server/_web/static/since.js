// Since when a series is lower: the split of its steps that best tells a lower mean after it from the mean before.

const MAX_P = 0.05; // of the best split, adjusted for their number (Bonferroni)

/**
 * The step at which a series fell, or null where chance explains the best split.
 *
 * `steps` have {value, lower, upper}, 95 % limits, in order of time. Steps are weighted by their precision, and a
 * split's z is the difference of the weighted means before and after it in standard errors. O(steps).
 */
export function fallOf(steps) {
  const known = steps.filter(({ value, lower, upper }) => value !== undefined && upper > lower);
  const weights = known.map(({ lower, upper }) => (2 * 1.959964 / (upper - lower)) ** 2);
  const total = sum(weights);
  const totalValue = sum(known.map(({ value }, index) => value * weights[index]));
  let [weight, value, best] = [0, 0, null];
  for (let index = 1; index < known.length; index += 1) {
    weight += weights[index - 1];
    value += weights[index - 1] * known[index - 1].value;
    const [before, after] = [value / weight, (totalValue - value) / (total - weight)];
    const z = (after - before) / Math.sqrt(1 / weight + 1 / (total - weight));
    if (!best || z < best.z) best = { step: known[index], z, by: after - before };
  }
  return best && best.z < 0 && (known.length - 1) * tail(-best.z) < MAX_P ? best : null;
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

/** The chance of a standard normal number beyond z on either side (Abramowitz and Stegun 7.1.26; within 2e-7). */
export function tail(z) {
  const x = z / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  return t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-x * x);
}
