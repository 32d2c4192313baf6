"use strict";
const page = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
root.classList.add("js");
const dark = matchMedia("(prefers-color-scheme: dark)");

// A word joiner before a Korean particle: lines would break between it and the sign before.
function wholeWords(text) {
  return text.replace(/(?<=[%)\]”’])(?=[가-힣])/g, "\u2060");
}

function say(key, values) {
  const text = page.words[root.lang][key];
  return wholeWords(values ? text.replace(/\{(\w+)\}/g, (_, name) => values[name]) : text);
}

function setLanguage(lang) {
  root.lang = lang;
  const column = page.langs.indexOf(lang);
  for (const element of document.querySelectorAll("[data-w]")) {
    element.textContent = page.texts[element.dataset.w][column];
  }
  for (const element of document.querySelectorAll("[data-wa]")) {
    const [name, id] = element.dataset.wa.split(" ");
    element.setAttribute(name, page.texts[id][column]);
  }
  document.dispatchEvent(new Event("languagechange"));
}

function showTheme() {
  const theme = root.dataset.theme || (dark.matches ? "dark" : "light");
  document.querySelector(`input[name=theme][value=${theme}]`).checked = true;
}

for (const input of document.querySelectorAll("input[name=lang]")) {
  input.addEventListener("change", () => setLanguage(input.value));
}
for (const input of document.querySelectorAll("input[name=theme]")) {
  input.addEventListener("change", () => { root.dataset.theme = input.value; });
}
dark.addEventListener("change", showTheme);
showTheme();
// PAGE.html#ko; a page in the first language opens in the reader's, where it can.
const preferred = root.lang === page.langs[0] ? navigator.language.slice(0, 2) : root.lang;
const first = [location.hash.slice(1), preferred].find((lang) => page.langs.includes(lang));
if (first && first !== root.lang) setLanguage(first);
document.querySelector(`input[name=lang][value=${root.lang}]`).checked = true;

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = say("x.copied");
    } catch {
      getSelection().selectAllChildren(code);
    }
  });
}

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
