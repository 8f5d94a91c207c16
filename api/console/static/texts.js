// The texts of scripts, which each page has as JSON from the catalogue of all texts.
export const texts = JSON.parse(document.getElementById("texts").textContent);

// Put values in place of `{name}`.
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}
