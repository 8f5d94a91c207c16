// Prints what the tests of http-cache-semantics ask, where a shared cache and a client's have the same answer.
// node cache_recorder.js FOLDER_OF_THE_PACKAGE
"use strict";
const fs = require("fs");
const path = require("path");

const folder = path.resolve(process.argv[2]);
const Policy = require(folder);
const asked = [];
let test = "";
let depth = 0;

function copy(value) {
  return JSON.parse(JSON.stringify(value));
}

class RecordedPolicy extends Policy {
  constructor(request, response, options) {
    super(request, response, options);
    this.question = request && response && { request: copy(request), response: copy(response) };
    this.options = options || {};
  }
}
for (const method of ["storable", "stale", "timeToLive", "maxAge", "satisfiesWithoutRevalidation", "revalidationHeaders"]) {
  RecordedPolicy.prototype[method] = function (...values) {
    const isAsked = depth === 0 && this.question && Object.keys(this.options).every((name) => name === "shared");
    depth += 1;
    try {
      const answer = Policy.prototype[method].apply(this, values);
      if (isAsked) this.record(method === "maxAge" ? "timeToLive" : method, values[0]);
      return answer;
    } finally {
      depth -= 1;
    }
  };
}
RecordedPolicy.prototype.record = function (method, next) {
  const answers = [true, false].map((shared) => {
    const other = new Policy(this.question.request, this.question.response, { shared });
    other._responseTime = this._responseTime;
    other.now = () => this.now();
    return other[method](...(next ? [copy(next)] : []));
  });
  if (JSON.stringify(answers[0]) !== JSON.stringify(answers[1])) return;
  const elapsed = (this.now() - this._responseTime) / 1000;
  asked.push({ test, method, elapsed, next: next || null, answer: answers[0], ...this.question });
};

require.cache[require.resolve(folder)].exports = RecordedPolicy;
global.describe = (name, body) => body();
global.it = (name, body) => {
  test = name;
  const before = asked.length;
  try {
    body();
  } catch (error) {
    asked.length = before; // a test that fails says nothing
  }
};
for (const file of fs.readdirSync(path.join(folder, "test")).sort()) require(path.join(folder, "test", file));
console.log(JSON.stringify({ asked }));
