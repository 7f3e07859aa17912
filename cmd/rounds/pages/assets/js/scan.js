// Signing in by a scan: the page leads to the account once that is registered, and to the field
// for digits once they are asked for.
addEventListener("swapped", (e) => {
  if (e.target.querySelector("[data-done]")) return location.replace(location.href);
  const digits = e.target.querySelector("#digits");
  if (digits && [document.body, null].includes(document.activeElement)) digits.focus();
});
