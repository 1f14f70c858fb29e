// What is seen, as an alert of Prometheus, as alarms of the server and as a report: texts to copy.

import { metric } from "./api.js";
import { dated, figure, titleOf } from "./format.js";
import { HEADLINE } from "./metrics.js";

const AUC_ROC_TOLERANCE = 0.01;
const RATE_TOLERANCE = 0.03;

/**
 * An alert for when the recent figure is below all that is plausible of what is seen: its upper limit below the
 * lower limit of now. Null where the figure has no interval.
 */
export function prometheusRule(name, snapshot) {
  const limits = metric(snapshot, HEADLINE)?.interval;
  if (limits?.lower === undefined) return null;
  const title = titleOf(HEADLINE);
  const floor = limits.lower.toPrecision(4);
  return [
    "groups:",
    `  - name: streameval ${name}`,
    "    rules:",
    `      # Seen: ${title} ${figure(metric(snapshot, HEADLINE).value)} (${figure(limits.lower)} to ${figure(limits.upper)}), ${seen(snapshot)}.`,
    "      - alert: ModelBelowWhatWasSeen",
    "        expr: |",
    `          streameval_${HEADLINE}_upper{stream="${name}", window="recent"}`,
    `            < ${floor}`,
    "        for: 15m",
    "        labels: {severity: warning}",
    "        annotations:",
    `          summary: "${title} of ${name} is below ${floor}"`,
    "",
  ].join("\n");
}

/** The command that declares alarms at a server with what is seen as their reference. */
export function alarmCommand(name, snapshot, address) {
  const { window, operatingPoint } = snapshot;
  const watches = [`auc_roc=${AUC_ROC_TOLERANCE}`, ...(operatingPoint ? [`precision=${RATE_TOLERANCE}`, `recall=${RATE_TOLERANCE}`] : [])];
  return [
    `streameval alarms declare ${name} --server ${address}`,
    ...watches.map((each) => `  --watch ${each}`),
    ...(window ? [`  --reference ${window.startTime}..${window.endTime}`] : []),
  ].join(" \\\n");
}

/** The command that writes a report of what is seen. */
export function reportCommand(name, { window, segment }, address) {
  return [
    `streameval report ${name} --server ${address}`,
    ...(window ? [`  --from ${window.startTime} --to ${window.endTime}`] : []),
    ...(segment ? [`  --segment ${quoted(`${segment.key}=${segment.value ?? ""}`)}`] : []),
    "  --output report.html",
  ].join(" \\\n");
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const seen = ({ window }) => (window ? dated(new Date(window.startTime), new Date(window.endTime)) : "all time");
