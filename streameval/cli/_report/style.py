"""The report's style sheet: for a screen, light and dark, and for paper."""

STYLE = """
:root { color-scheme: light dark; --ground: light-dark(#fff, #14181f);
  --ink: light-dark(#1b2430, #e4e9f0);
 --muted: light-dark(#5a6675, #9aa7b8); --line: light-dark(#d5dbe2, #37414f);
  --a: light-dark(#1f5fa8, #6aaaf0);
 --warn: light-dark(#fdf3dc, #33290f); --warn-ink: light-dark(#6b4a00, #f1d08a); }
* { box-sizing: border-box; }
body { max-width: 62rem; margin: 0 auto; padding: 2.2rem 1.4rem 4rem; background: var(--ground);
  color: var(--ink);
 font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
 font-variant-numeric: tabular-nums; }
h1 { margin: 0; font-size: 1.7rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 2.2rem 0 0.6rem; font-size: 1.1rem; }
.first h2 { margin-top: 1.2rem; }
.annex .title { margin: 0; font-size: 1.4rem; }
.annex { margin-top: 3rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
p, ul { margin: 0.4rem 0; }
.about, .note, caption, figcaption, dt, .more { color: var(--muted); font-size: 0.86rem; }
.warnings { padding: 0.7rem 1.1rem 0.7rem 2.2rem; background: var(--warn);
  color: var(--warn-ink); border-radius: 8px; }
.conclusion { margin: 1rem 0; padding: 0.8rem 1.1rem; border-left: 4px solid var(--a);
  background: light-dark(#f1f4f8, #1d2530); border-radius: 6px; font-size: 1.15rem; }
.conclusion.bad { border-color: light-dark(#c0341d, #f0735a); }
.notes { padding-left: 1.2rem; font-size: 0.9rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.4rem, 1fr));
  gap: 0.9rem 1.4rem;
 margin: 1.2rem 0; padding: 1rem 0; border-block: 1px solid var(--line); }
.figures dd { margin: 0; }
.figures .value { font-size: 1.35rem; font-weight: 620; }
.figures .lead .value { font-size: 2rem; line-height: 1.2; color: var(--a); }
.pair { display: grid; align-items: start; gap: 1rem 1.6rem;
  grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); }
figure { margin: 0.6rem 0; break-inside: avoid; }
figcaption { margin-bottom: 0.3rem; }
img { display: block; width: 100%; height: auto; background: #fff; }
table { width: 100%; border-collapse: collapse; font-size: 0.9rem; }
caption { text-align: left; padding: 0.3rem 0; }
td, th { padding: 0.32rem 0.5rem 0.32rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-weight: 500; font-size: 0.82rem; }
tbody th { font-weight: 500; overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; }
.scroll { overflow-x: auto; }
.step { white-space: nowrap; }
@media print {
 :root { color-scheme: light; }
 body { max-width: none; padding: 0; font-size: 10pt; }
 h2 { break-after: avoid; }
 .annex { break-before: page; margin: 0; padding: 0; border: 0; }
 tr, .figures, .pair > * { break-inside: avoid; }
 thead { display: table-header-group; }
 .scroll { overflow: visible; }
 table { font-size: 8pt; }
 @page { margin: 16mm 14mm; }
}
"""
