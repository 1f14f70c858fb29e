// The alarm state of each stream of the list: a chip beside its name.

import { get, Refresher } from "./api.js";
import { isOpen, openWords, watchTitle } from "./alarms.js";
import { setText } from "./dom.js";

const GAP_MS = 1_000;
const STREAMS_PER_PAGE = 1_000;

/** How many alarms of a snapshot's stream are open. */
export const openAlarms = (snapshot) => Number(snapshot.openAlarms ?? 0);

export class AlarmStates {
  /** `changed` is called when states were read; `failed` gets the ApiError of a read. */
  constructor(signal, changed, failed) {
    Object.assign(this, { signal, changed, statuses: new Map(), ends: [], declared: "[]" });
    this.refresher = new Refresher(() => this.load(), GAP_MS, signal, failed);
  }

  /** Read again when other streams, or other settings, have alarms, and when a reference has ended. */
  declare(streams) {
    const declared = JSON.stringify(streams.filter(({ settings }) => settings.alarms)
      .map(({ name, settings }) => [name, settings.alarms]));
    const isDue = this.ends.some((end) => end < Date.now());
    if (declared === this.declared && !isDue) return;
    this.declared = declared;
    this.refresher.request();
  }

  /** Read again when a snapshot has another number of open alarms. */
  follow(snapshots) {
    if (snapshots.some((each) => openAlarms(each) !== (this.statuses.get(each.stream)?.numOpen ?? 0))) this.refresher.request();
  }

  async load() {
    const [statuses, ends] = [new Map(), []]; // `ends` are those of references that are waited for
    let pageToken = "";
    do {
      const page = await get("v1/alarms", { pageSize: STREAMS_PER_PAGE, pageToken }, this.signal);
      for (const { stream, state, alarms, reference } of page.statuses) {
        const isWaiting = state === "ALARM_STATE_WAITING";
        if (isWaiting) ends.push(new Date(reference.endTime).getTime());
        const open = alarms.filter(isOpen);
        const titles = new Set(open.map(({ watch }) => watchTitle(watch)));
        statuses.set(stream, { isWaiting, numOpen: open.length, titles: [...titles].join(", ") });
      }
      pageToken = page.nextPageToken;
    } while (pageToken);
    Object.assign(this, { statuses, ends });
    this.changed();
  }

  /** Show a stream's state in its chip; nothing where it has no alarms. */
  show(chip, snapshot) {
    const [number, status] = [openAlarms(snapshot), this.statuses.get(snapshot.stream)];
    chip.hidden = !number && !status;
    chip.classList.toggle("open", number > 0);
    if (number) {
      setText(chip, `${openWords(number)}${status?.titles ? `: ${status.titles}` : ""}`);
    } else if (status) {
      setText(chip, status.isWaiting ? "alarms wait for their reference" : "no open alarm");
    }
  }
}
