// How many alarms a snapshot says are open.

/** How many alarms of a snapshot's stream are open. */
export const openAlarms = (snapshot) => Number(snapshot.openAlarms ?? 0);
