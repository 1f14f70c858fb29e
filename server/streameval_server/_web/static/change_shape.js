// A change in a time chart: when it began, between which times, and the levels before and after.

/** The change of a verdict: {earliest, likeliest, latest, before, after} as times and values; null without one. */
export function changeOf(verdict) {
  const found = verdict?.figures[0];
  if (!verdict?.since || found?.before?.estimate === undefined || found.now?.estimate === undefined) return null;
  const [earliest, likeliest, latest] = ["earliest", "likeliest", "latest"].map((name) => new Date(verdict.since[name]).getTime());
  return { earliest, likeliest, latest, before: found.before.estimate, after: found.now.estimate, metric: found.metric };
}

/** Draws a change in a chart between two times. */
export function changeShape(colours, [start, end]) {
  return ({ earliest, likeliest, latest, before, after }, api, box) => {
    const x = (time) => api.coord([Math.min(end, Math.max(start, time)), 0])[0];
    const level = (from, to, value, dashed) => {
      const y = api.coord([start, value])[1];
      return { type: "line", shape: { x1: x(from), y1: y, x2: x(to), y2: y }, style: { stroke: colours.alarm, lineWidth: 1.8, lineDash: dashed ? [6, 4] : null } };
    };
    const children = [level(likeliest, end, after, false)];
    if (likeliest > start) children.push(level(start, likeliest, before, true));
    if (latest > start && earliest < end) {
      children.push({ type: "rect", shape: { x: x(earliest), y: box.y, width: Math.max(1, x(latest) - x(earliest)), height: box.height },
        style: { fill: colours.alarm, opacity: 0.13 } });
    }
    if (likeliest > start && likeliest < end) {
      children.push({ type: "line", shape: { x1: x(likeliest), y1: box.y, x2: x(likeliest), y2: box.y + box.height }, style: { stroke: colours.alarm, lineWidth: 1.4 } });
    }
    return { type: "group", children };
  };
}
