// PouchDB: documents in LevelDB, two map/reduce views, which a query brings up to date after each batch.
// The driver keeps the revision of each document, so that no update has to read it first.
"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");
const PouchDB = require("pouchdb-node");

const [, , , , , size, input, folder, rows] = process.argv;
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function say(word) {
  console.log(word);
  if ((await answers.next()).done) process.exit(1);
}

const VIEWS = {
  _id: "_design/views",
  views: {
    by_name: { map: "function (doc) { emit(doc.name, 1); }", reduce: "_count" },
    by_city: { map: "function (doc) { emit(doc.city, doc.amount); }", reduce: "_stats" },
  },
};

async function main() {
  const lines = fs.readFileSync(input, "utf8").split("\n").filter(Boolean);
  const base = new PouchDB(path.join(folder, "base"));
  await base.put(VIEWS);
  const revisions = new Map();
  await say("ready");
  for (let first = 0; first < lines.length; first += Number(size)) {
    const last = new Map();
    for (const line of lines.slice(first, first + Number(size))) {
      const doc = JSON.parse(line);
      last.set(String(doc.id), doc);
    }
    const docs = [];
    for (const [key, doc] of last) {
      const own = { ...doc, _id: key };
      delete own.deleted;
      if (doc.deleted && !revisions.has(key)) continue;
      if (doc.deleted) own._deleted = true;
      if (revisions.has(key)) own._rev = revisions.get(key);
      docs.push(own);
    }
    for (const [number, result] of (await base.bulkDocs(docs)).entries()) {
      if (result.error) throw new Error(result.message);
      if (docs[number]._deleted) revisions.delete(result.id);
      else revisions.set(result.id, result.rev);
    }
    await base.query("views/by_name", { limit: 1, reduce: false });
    await base.query("views/by_city", { limit: 1, reduce: false });
  }
  await say(`done ${JSON.stringify({ version: PouchDB.version })}`);
  const names = (await base.query("views/by_name", { group: true })).rows.map((row) => `by_name\t${row.key}\t${row.value}`);
  const cities = (await base.query("views/by_city", { group: true })).rows.map(
    (row) => `by_city\t${row.key}\t${row.value.count}\t${row.value.sum}`,
  );
  fs.writeFileSync(rows, [...names, ...cities].join("\n") + "\n");
  await base.close();
  process.exit(0);
}

main();
