// Light, dark, or as the system has it. Loaded before anything is drawn.

const KEY = "streameval.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function apply(chosen) {
  const isDark = chosen ? chosen === "dark" : system.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  document.dispatchEvent(new Event("theme"));
  return isDark;
}

/** Let a button switch between light and dark; the choice is kept for this browser. */
export function startTheme(button) {
  const show = () => {
    const isDark = apply(localStorage.getItem(KEY));
    button.setAttribute("aria-pressed", String(isDark));
  };
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    // What the system has needs no choice of its own.
    if ((next === "dark") === system.matches) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
    show();
  });
  system.addEventListener("change", show);
  show();
}
