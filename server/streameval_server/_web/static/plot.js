// One ECharts instance in an element: SVG, resized with it, drawn again when the theme changes.

let library = null;
let failures = 0;

/** Load ECharts once. Browsers may cache a failed import by its URL, so a retry changes the URL. */
function echarts() {
  library ??= import(`./vendor/echarts/echarts.esm.min.js${failures ? `?${failures}` : ""}`).catch((error) => {
    library = null;
    failures += 1;
    throw error;
  });
  return library;
}

const NAMES = ["ink", "muted", "line", "surface", "a", "b", "hull", "positive", "negative", "region", "mark", "alarm", "good"];

/** The page's colours, as CSS defines them now. */
function palette() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const colours = Object.fromEntries(NAMES.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return colours;
}

export class Plot {
  /** `signal` disposes of the chart. */
  constructor(element, signal) {
    this.element = element;
    const repaint = () => this.paint();
    const paper = window.matchMedia("print");
    const sized = new ResizeObserver(() => {
      if (paper.matches) return; // there the drawing of the screen shrinks as a whole
      this.chart?.resize();
      repaint();
    });
    sized.observe(element);
    document.addEventListener("theme", repaint, { signal });
    signal.addEventListener("abort", () => {
      sized.disconnect();
      this.build = null;
      this.chart?.dispose();
    });
  }

  /** Draw what `build(colours, width)` returns, an ECharts option; `label` describes it for screen readers. */
  async draw(label, build) {
    this.build = build;
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", label);
    let loaded;
    try {
      loaded = await echarts();
    } catch {
      return; // the server is unavailable, and the banner says so; the next figures load it again
    }
    if (!this.build) return; // disposed of meanwhile
    this.chart ??= loaded.init(this.element, null, { renderer: "svg" });
    this.paint();
  }

  /** The chart as it is now: {svg, width, height}. */
  picture() {
    return { svg: this.chart.renderToSVGString(), width: this.chart.getWidth(), height: this.chart.getHeight() };
  }

  /** The time at a distance from the left edge, of a chart over time; and the distance of a time. */
  timeAt(x) {
    return this.chart.convertFromPixel({ xAxisIndex: 0 }, x);
  }

  xOf(time) {
    return this.chart.convertToPixel({ xAxisIndex: 0 }, time);
  }

  /** The index of the grid at a place; null outside of all `grids`. */
  gridAt(x, y, grids) {
    for (let index = 0; index < grids; index += 1) {
      if (this.chart?.containPixel({ gridIndex: index }, [x, y])) return index;
    }
    return null;
  }

  /** Show the tooltip of a time, as a pointer there does; and hide it. */
  point(time) {
    this.chart?.dispatchAction({ type: "showTip", x: this.xOf(time), y: this.element.clientHeight / 3 });
  }

  unpoint() {
    this.chart?.dispatchAction({ type: "hideTip" });
  }

  paint() {
    if (!this.build || !this.chart || !this.element.clientWidth) return;
    const colours = palette();
    const option = this.build(colours, this.element.clientWidth);
    this.chart.setOption({ ...common(colours), ...option }, { replaceMerge: ["series"] });
    // So that a chart fits the width of a sheet.
    this.element.querySelector("svg")?.setAttribute("viewBox", `0 0 ${this.chart.getWidth()} ${this.chart.getHeight()}`);
  }
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif";

function common(colours) {
  return {
    animation: false,
    textStyle: { fontFamily: FONT, fontSize: 12, color: colours.ink },
  };
}

/** A tooltip drawn as SVG text: its content is never markup. */
export function tooltip(colours, formatter) {
  return {
    trigger: "axis",
    renderMode: "richText",
    confine: true,
    formatter,
    backgroundColor: colours.surface,
    borderColor: colours.line,
    textStyle: { fontFamily: FONT, fontSize: 12, lineHeight: 18, color: colours.ink },
    axisPointer: { type: "line", lineStyle: { color: colours.muted, type: [2, 3] } },
  };
}

/** An axis with the settings that all axes share. */
export function axis(colours, name, more = {}) {
  return {
    name,
    nameTextStyle: { color: colours.muted },
    axisLine: { show: true, lineStyle: { color: colours.line } },
    axisTick: { show: false },
    axisLabel: { color: colours.muted, fontSize: 11, hideOverlap: true },
    splitLine: { show: true, lineStyle: { color: colours.line, width: 0.5 } },
    ...more,
  };
}

/** An axis from 0 to 1. */
export function unitAxis(colours, name, more = {}) {
  return axis(colours, name, { type: "value", min: 0, max: 1, interval: 0.2, nameLocation: "middle", ...more });
}

/**
 * Names at what they name, in place of a legend: {text, at, colour, side, up}, where `side` is "left" or "right" of
 * the point `at`, and `up` how many pixels above it. A name that `mayHide` is left out if it would cover another.
 */
export function names(colours, all) {
  return {
    name: "names", type: "scatter", silent: true, z: 6, symbolSize: 1, itemStyle: { color: "transparent", opacity: 1 }, tooltip: { show: false },
    labelLayout: ({ dataIndex }) => ({ hideOverlap: Boolean(all[dataIndex].mayHide), dy: -all[dataIndex].up }),
    data: all.map(({ text, at, colour, side }) => ({
      value: at,
      label: {
        show: true, position: side, distance: 6, color: colour, fontSize: 11,
        textBorderColor: colours.surface, textBorderWidth: 3, formatter: () => text.replace(/[{}|]/g, " "),
      },
    })),
  };
}

/** A line without symbols. */
export function line(name, data, colour, more = {}) {
  return {
    name, data, type: "line", showSymbol: false, symbol: "none", silent: true,
    lineStyle: { color: colour, width: 2, ...more.lineStyle }, itemStyle: { color: colour },
    ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== "lineStyle")),
  };
}
