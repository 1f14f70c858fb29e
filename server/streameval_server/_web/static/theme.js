// The theme: light, dark, or the system's. Applied before anything is drawn.

const KEY = "streameval.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function apply(chosen) {
  const isDark = chosen ? chosen === "dark" : system.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  document.dispatchEvent(new Event("theme"));
  return isDark;
}

/** Make a button switch between light and dark; the choice is stored in this browser. */
export function startTheme(button) {
  const show = () => {
    const isDark = apply(localStorage.getItem(KEY));
    button.textContent = isDark ? "Light theme" : "Dark theme"; // what it does
  };
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    // The system's own theme needs no stored choice.
    if ((next === "dark") === system.matches) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
    show();
  });
  system.addEventListener("change", show);
  window.addEventListener("beforeprint", () => apply("light")); // paper is white, whatever the screen is
  window.addEventListener("afterprint", show);
  show();
}
