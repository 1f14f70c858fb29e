// A card's chart as a picture that explains itself: heading, what is seen, legend, plot, as SVG or PNG.
//
// It is written as text: a plot has inline styles, which the page's own policy forbids to be parsed here.

const MARGIN = 16;
const LINE_HEIGHT = 18; // of the legend
const CHARACTER_WIDTH = 6.6; // about, at 12 px
const PNG_SCALE = 2;

/** The picture as an SVG document. `card` is a ChartCard that was drawn; `about` says what is seen. */
export function svgOf(card, about) {
  const { color: ink, backgroundColor: ground } = getComputedStyle(card.element);
  const { svg: plot, width, height } = card.plot.picture();
  const { drawn, end } = legend(card, { y: 68, width, ink });
  const top = end + 6;
  const [outer, bottom] = [width + 2 * MARGIN, top + height + MARGIN];
  return tag("svg", {
    xmlns: "http://www.w3.org/2000/svg", "xmlns:xlink": "http://www.w3.org/1999/xlink",
    width: outer, height: bottom, viewBox: `0 0 ${outer} ${bottom}`, "font-family": "system-ui, sans-serif", "font-size": 12,
  }, [
    tag("title", {}, escaped(`${card.title}: ${about}`)),
    tag("rect", { width: "100%", height: "100%", fill: ground }),
    tag("text", { x: MARGIN, y: 28, fill: ink, "font-size": 16, "font-weight": 650 }, escaped(card.title)),
    tag("text", { x: MARGIN, y: 47, fill: getComputedStyle(card.note).color }, escaped(about)),
    drawn, plot.replace("<svg ", `<svg x="${MARGIN}" y="${top}" `),
  ].join(""));
}

/** The legend in lines, and where it ends. */
function legend(card, { y, width, ink }) {
  let x = MARGIN;
  const drawn = [...card.keys.children].map((key) => {
    const name = key.textContent;
    const wide = 42 + CHARACTER_WIDTH * name.length;
    if (x > MARGIN && x + wide > width) [x, y] = [MARGIN, y + LINE_HEIGHT];
    const item = swatch(getComputedStyle(key.firstElementChild), x, y) + tag("text", { x: x + 26, y, fill: ink }, escaped(name));
    x += wide;
    return item;
  });
  return { drawn: drawn.join(""), end: drawn.length ? y : y - LINE_HEIGHT };
}

/** A swatch as the page's styles draw it: a line, or an area with its border. */
function swatch(style, x, y) {
  const [width, height] = [style.width, style.height].map(Number.parseFloat);
  const isUpright = style.borderLeftStyle === "solid" && style.borderTopStyle === "none";
  if (isUpright) return tag("line", { x1: x + 9, x2: x + 9, y1: y - 11, y2: y + 2, stroke: style.borderLeftColor, "stroke-width": 2 });
  const border = { stroke: style.borderTopColor, "stroke-width": style.borderTopWidth };
  if (style.borderTopStyle === "none") border.stroke = "none";
  const isLine = height <= Number.parseFloat(style.borderTopWidth); // a border alone
  if (isLine) {
    const dashes = style.borderTopStyle === "dashed" ? { "stroke-dasharray": "5 3" } : {};
    return tag("line", { x1: x, x2: x + 18, y1: y - 4, y2: y - 4, ...border, ...dashes });
  }
  const rx = style.borderTopLeftRadius.endsWith("%") ? width / 2 : 2;
  return tag("rect", { x: x + 2, y: y - 10, width, height, rx, fill: style.backgroundColor, ...border });
}

const escaped = (text) => text.replace(/[&<>"]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[each]);

const tag = (name, attributes, content = "") =>
  `<${name}${Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(String(value))}"`).join("")}>${content}</${name}>`;

/** An SVG document as a PNG, with two pixels for one. */
export async function pngOf(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth * PNG_SCALE, image.naturalHeight * PNG_SCALE];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}
