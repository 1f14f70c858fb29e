// Computes the points of plots from curves in counts. Counts are numbers: exact below 2^53.

/** Convert a Curve message to arrays of numbers: what cases weigh where they have weights. */
export function points(curve) {
  const isWeighted = curve?.weightedTp?.length > 0;
  return {
    fp: ((isWeighted ? curve.weightedFp : curve?.fp) ?? []).map(Number),
    tp: ((isWeighted ? curve.weightedTp : curve?.tp) ?? []).map(Number),
    thresholds: (curve?.thresholds ?? []).map(Number), // "Infinity" becomes Infinity
  };
}

/**
 * The upper convex hull of a curve, with the fewest vertices. A thinned curve keeps every vertex of
 * the full curve's hull, so this is the hull of all points, at the curve's own revision.
 */
export function hullOf({ fp, tp, thresholds }) {
  const isBelow = (first, middle, last) => {
    const sides = [fp[middle] - fp[first], tp[last] - tp[first], tp[middle] - tp[first], fp[last] - fp[first]];
    const isExact = tp.at(-1) * fp.at(-1) < Number.MAX_SAFE_INTEGER || !sides.every(Number.isSafeInteger); // sums of weights are fractions
    const [a, b, c, d] = isExact ? sides : sides.map(BigInt);
    return a * b >= c * d;
  };
  const kept = [];
  for (let index = 0; index < fp.length; index += 1) {
    while (kept.length > 1 && isBelow(kept.at(-2), kept.at(-1), index)) kept.pop();
    kept.push(index);
  }
  return Object.fromEntries(Object.entries({ fp, tp, thresholds })
    .map(([name, column]) => [name, kept.map((index) => column[index])]));
}

/** ROC points [FPR, TPR, index]. */
export function rocPath({ fp, tp }, positives, negatives) {
  return fp.map((each, index) => [each / negatives, tp[index] / positives, index]);
}

/** One point in PR space [recall, precision]; null where nothing is called positive. */
export function prPoint(fp, tp, positives, skew = 1) {
  const called = tp + skew * fp;
  return called > 0 ? [tp / positives, tp / called] : null;
}

const STEPS = 120; // line segments of a curve from recall 0 to 1

/**
 * PR points of a curve, interpolated as by Davis and Goadrich (2006): between two points false
 * positives grow linearly with true positives, which is not a straight line in PR space. `skew`
 * rescales FP to another prevalence. From (0, 0) on, precision is that of the first point.
 */
export function prPath({ fp, tp }, positives, skew = 1) {
  const path = [];
  for (let index = 1; index < fp.length; index += 1) {
    const [fp0, tp0, fp1, tp1] = [fp[index - 1], tp[index - 1], fp[index], tp[index]];
    if (tp0 === 0 && fp0 === 0 && tp1 > 0) path.push([0, prPoint(fp1, tp1, positives, skew)[1]]);
    const pieces = Math.max(1, Math.ceil((STEPS * (tp1 - tp0)) / positives));
    for (let step = 1; step <= pieces; step += 1) {
      const share = step / pieces;
      const at = prPoint(fp0 + share * (fp1 - fp0), tp0 + share * (tp1 - tp0), positives, skew);
      if (at) path.push(at);
    }
  }
  return path;
}

/** The vertices of the achievable PR curve: [recall, precision, index of the hull's vertex]. */
export function prVertices({ fp, tp }, positives) {
  return fp
    .map((each, index) => [...(prPoint(each, tp[index], positives) ?? []), index])
    .filter((each) => each.length === 3);
}

/** The minimum precision at each recall: that of a ranking with all negatives first (Boyd 2012). */
export function minPrecision(prevalence) {
  return Array.from({ length: 51 }, (_, index) => {
    const recall = index / 50;
    const called = prevalence * recall + 1 - prevalence;
    return [recall, called > 0 ? (prevalence * recall) / called : 1];
  });
}

/**
 * The vertex of the hull with the lowest costFp FP + costFn FN; of equal ones that with the highest
 * threshold. Slopes decrease along the hull, so the steps that lower the cost come first.
 */
export function cheapestVertex({ fp, tp }, costFp, costFn) {
  let best = 0;
  while (best + 1 < fp.length
    && costFn * (tp[best + 1] - tp[best]) > costFp * (fp[best + 1] - fp[best])) best += 1;
  return best;
}

/** Index of a threshold's point: the last one whose threshold is not below it. */
export function pointAt({ thresholds }, threshold) {
  let low = 0;
  let high = thresholds.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (thresholds[middle] >= threshold) low = middle;
    else high = middle - 1;
  }
  return low;
}
