// Switches between the light theme, the dark theme and the system's setting. Runs before the page is drawn, so that the
// wrong theme does not flash.
(function () {
  "use strict";
  const NAMES = ["auto", "light", "dark"];
  const page = document.documentElement.dataset;
  let kept = {}; // without storage, the choice is lost when the page is closed
  try {
    kept = localStorage;
  } catch {
    // storage is forbidden
  }
  page.theme = NAMES.includes(kept["decabench-theme"]) ? kept["decabench-theme"] : "auto";
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-button]");
    const label = button.querySelector("span");
    label.textContent = page.theme;
    button.hidden = false;
    button.addEventListener("click", () => {
      page.theme = label.textContent = NAMES[(NAMES.indexOf(page.theme) + 1) % NAMES.length];
      kept["decabench-theme"] = page.theme;
    });
  });
})();
