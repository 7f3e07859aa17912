// The list of accounts: check all rows of the page, and say how many are checked.
const list = document.getElementById("list");
const all = document.getElementById("pick-all");
if (list && all) {
  const rows = [...list.querySelectorAll("input[name=pick]")];
  const picked = document.getElementById("picked");
  const say = picked.textContent;
  const count = () => {
    const n = rows.filter((r) => r.checked).length;
    all.checked = n > 0 && n === rows.length;
    all.indeterminate = n > 0 && n < rows.length;
    picked.textContent = n ? `${say} ${n}` : say;
  };
  all.addEventListener("change", () => {
    for (const r of rows) r.checked = all.checked;
    count();
  });
  list.addEventListener("change", (e) => e.target !== all && count());
  count();
}
