// Light, dark or the system's own. Runs before the page is drawn, so that nothing flashes.
(function () {
  "use strict";
  const NAMES = ["auto", "light", "dark"];
  const KEY = "decabench-theme";

  function stored() {
    try {
      const name = localStorage.getItem(KEY);
      return NAMES.includes(name) ? name : "auto";
    } catch {
      return "auto"; // storage may be forbidden; the choice then lasts as long as the page
    }
  }

  function apply(name) {
    document.documentElement.dataset.theme = name;
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  apply(stored());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("themechange")),
  );
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-button]");
    const label = button.querySelector("span");
    label.textContent = document.documentElement.dataset.theme;
    button.hidden = false;
    button.addEventListener("click", () => {
      const now = NAMES.indexOf(document.documentElement.dataset.theme);
      const next = NAMES[(now + 1) % NAMES.length];
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // as above
      }
      label.textContent = next;
      apply(next);
    });
  });
})();
