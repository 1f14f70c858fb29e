// Tabs below the first screen: one panel is shown, the others are not drawn. Arrow keys go from tab to tab.

import { fill, h } from "./dom.js";

export class Tabs {
  /** `panels` are [key, title, elements]; `chosen(key)` is called when another one was chosen by hand. */
  constructor(label, panels, chosen) {
    Object.assign(this, { chosen, key: null });
    this.tabs = new Map(panels.map(([key, title, elements]) => [key, this.make(key, title, elements)]));
    const all = [...this.tabs.values()];
    this.list = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: (event) => this.move(event) },
      all.map(({ button }) => button));
    this.element = h("section", { class: "tabbed", "aria-label": label }, this.list, all.map(({ panel }) => panel));
  }

  make(key, title, elements) {
    const badge = h("span", { class: "badge", hidden: true });
    const button = h("button", {
      type: "button", role: "tab", id: `tab-${key}`, "aria-controls": `panel-${key}`, onclick: () => this.choose(key),
    }, title, badge);
    const panel = h("div", { role: "tabpanel", id: `panel-${key}`, "aria-labelledby": `tab-${key}`, class: "cards", hidden: true }, elements);
    return { button, panel, badge, isOffered: true };
  }

  /** The panel that is shown: the one that was asked for, or the first one if that has nothing to show. */
  get shown() {
    return this.tabs.get(this.key)?.isOffered ? this.key : [...this.tabs].find(([, each]) => each.isOffered)?.[0] ?? null;
  }

  /** Show the panel of the URL. */
  show(key) {
    this.key = key;
    this.draw();
  }

  /** Offer panels that have something to show, and no others: {key: isOffered}. */
  offer(offered) {
    for (const [key, isOffered] of Object.entries(offered)) this.tabs.get(key).isOffered = isOffered;
    this.draw();
  }

  /** Write a short text next to a title, such as a number; "" removes it. */
  mark(key, text) {
    const { badge } = this.tabs.get(key);
    badge.hidden = !text;
    fill(badge, text);
  }

  choose(key) {
    this.show(key);
    this.chosen(key);
  }

  draw() {
    const { shown } = this;
    for (const [key, { button, panel, isOffered }] of this.tabs) {
      button.hidden = !isOffered;
      button.setAttribute("aria-selected", String(key === shown));
      button.tabIndex = key === shown ? 0 : -1;
      panel.hidden = key !== shown;
    }
    this.element.hidden = shown === null;
  }

  move(event) {
    const offered = [...this.tabs].filter(([, each]) => each.isOffered);
    const at = offered.findIndex(([key]) => key === this.shown);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: offered.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const [key, { button }] = offered.at(to % offered.length);
    this.choose(key);
    button.focus();
  }
}
