// Times of the server, in the reader's zone; the exact time is shown on hover.
const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function showTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    element.textContent = short.format(at);
    element.title = element.dateTime;
  }
}
